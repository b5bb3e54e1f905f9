//! Decides which occurrence of a local time is meant if clocks were set back and an hour occurs twice. The decision is
//! based on the times that were read before.

/// Maximum distance in milliseconds at which a previous time is evidence. A time that is further from both occurrences
/// is ignored.
const NEAR_MS: i64 = 3_600_000;

/// Number of previous times that are used to choose between the two occurrences of a local time. Several times are used
/// because one of them may be wrong. A wrong time is rarely within an hour of the two occurrences, so it is usually
/// ignored and an earlier time is used instead.
const TIMES: usize = 4;

/// The times that were read last.
#[derive(Clone, Debug)]
pub(super) struct Recent {
    times_ms: [i64; TIMES],
    next: usize,
}

impl Default for Recent {
    fn default() -> Self {
        Self { times_ms: [i64::MIN; TIMES], next: 0 }
    }
}

impl Recent {
    pub(super) fn push(&mut self, time_ms: i64) {
        self.times_ms[self.next] = time_ms;
        self.next = (self.next + 1) % TIMES;
    }

    /// Returns the first or the second occurrence of a local time that occurs twice. The function uses the most recent
    /// previous time that is within an hour of one of the occurrences. It returns the occurrence that is closer to this
    /// previous time, or the second occurrence if both are equally close. If no previous time is within an hour, it
    /// returns the first occurrence.
    pub(super) fn choose(&self, first_ms: i64, second_ms: i64) -> i64 {
        for back in 1..=TIMES {
            let last_ms = self.times_ms[(self.next + TIMES - back) % TIMES];
            let to_first = last_ms.abs_diff(first_ms);
            let to_second = last_ms.abs_diff(second_ms);
            if to_first.min(to_second) <= NEAR_MS.unsigned_abs() {
                return if to_second <= to_first { second_ms } else { first_ms };
            }
        }
        first_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;

    /// Returns the chosen occurrence of a time that occurs at minute 0 and at minute 60, after the times `minutes`.
    fn chosen(minutes: &[i64]) -> i64 {
        let mut recent = Recent::default();
        minutes.iter().for_each(|minute| recent.push(minute * MINUTE_MS));
        recent.choose(0, 60 * MINUTE_MS) / MINUTE_MS
    }

    #[test]
    fn the_closer_occurrence_is_chosen() {
        for (minutes, occurrence) in [
            (&[][..], 0),
            (&[-60], 0),
            (&[-1], 0),
            (&[29], 0),
            (&[30], 60),
            (&[31], 60),
            (&[59], 60),
            (&[61], 60),
            (&[120], 60),
            (&[121], 0),
            (&[-1, 59], 60),
            (&[59, -1], 0),
        ] {
            assert_eq!(chosen(minutes), occurrence, "{minutes:?}");
        }
    }

    #[test]
    fn times_that_are_far_away_are_passed_over() {
        for far in [-10_000, 10_000, i64::MAX / MINUTE_MS] {
            assert_eq!(chosen(&[59, far]), 60);
            assert_eq!(chosen(&[59, far, far, far]), 60);
            assert_eq!(chosen(&[-1, far]), 0);
            assert_eq!(chosen(&[59, far, far, far, far]), 0, "no previous time is near the two occurrences any more");
        }
    }
}
