//! The clock that gives records their time of arrival (`--clock wall`). It stays usable when the clock of the machine
//! is changed.
//!
//! The clock starts with the time of day at the beginning of the run, and then advances at the rate of the monotonic
//! clock. It does not follow at once if the time of day is set to another value during the run. Otherwise, a time of
//! day that is wrong for only a minute could end a window too early, or keep a window open for years.
//!
//! The clock follows a change of the time of day only within limits. It follows a change of at most a second at once.
//! It follows a larger change only after that change has lasted for a while. If the time of day is set back by more
//! than [`BACK_MAX_MS`], the clock does not follow at all.
//!
//! This module does not read any clock itself. Callers pass the time of day and the monotonic time, so tests can choose
//! both.

use std::time::Duration;

use anyhow::bail;
use jiff::Timestamp;

use crate::exit::UsageError;

/// Largest jump of the time of day that is followed at once. Time synchronisation makes jumps of this size during
/// normal operation.
const STEP_MAX_MS: i128 = 1_000;
/// Time that a larger jump must last before it is followed.
const JUMP_DURATION_MIN: Duration = Duration::from_secs(600);
/// Maximum amount in milliseconds by which the clock of the run follows the time of day backwards. If the time of day
/// is set back by a larger amount, the clock of the run ignores the change. The reason for this limit is that no window
/// ends until the clock has reached its earlier value again.
///
/// For the same reason, a run refuses to continue with a saved filter whose clock is ahead of the present by more than
/// this limit.
const BACK_MAX_MS: i128 = 300_000;

/// The clock that gives the records of a run their times of arrival.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    /// Accepted difference between the time of day and the monotonic clock, in milliseconds.
    ahead_ms: Option<i128>,
    /// Another difference that the time of day has shown, and the moment when it first appeared.
    doubted: Option<(i128, Duration)>,
}

impl Arrivals {
    /// Returns the present time of this clock, in milliseconds since 1970. `day_ms` is the time of day. It can be
    /// wrong, because users and time servers can set it. `steady` is the time since the start of the run, measured by a
    /// monotonic clock, which nobody can set.
    pub(crate) fn at(&mut self, day_ms: u64, steady: Duration) -> u64 {
        let steady_ms = steady.as_millis().cast_signed();
        let seen_ms = i128::from(day_ms) - steady_ms;
        let ahead_ms = *self.ahead_ms.get_or_insert(seen_ms);
        let since = match self.doubted {
            _ if are_near(seen_ms, ahead_ms) => None,
            Some((doubted_ms, since)) if are_near(seen_ms, doubted_ms) => Some(since),
            _ => Some(steady),
        };
        self.doubted = since.map(|since| (seen_ms, since));
        let has_lasted = since.is_none_or(|since| steady.saturating_sub(since) >= JUMP_DURATION_MIN);
        if has_lasted && ahead_ms - seen_ms <= BACK_MAX_MS {
            self.ahead_ms = Some(seen_ms);
            self.doubted = None;
        }
        u64::try_from(self.ahead_ms.unwrap_or(seen_ms) + steady_ms).unwrap_or(0)
    }
}

fn are_near(one_ms: i128, other_ms: i128) -> bool {
    (one_ms - other_ms).abs() <= STEP_MAX_MS
}

/// Checks that a filter that was saved at `saved_ms` can continue at `present_ms`, both in milliseconds since 1970.
///
/// # Errors
/// Returns an error if the filter is too far ahead of the present. No window of that filter would end until the present
/// has reached its time.
pub(crate) fn check_saved(saved_ms: Option<u64>, present_ms: u64) -> anyhow::Result<()> {
    let saved_ms = saved_ms.unwrap_or(0);
    if i128::from(saved_ms) - i128::from(present_ms) <= BACK_MAX_MS {
        return Ok(());
    }
    let [saved, present] = [saved_ms, present_ms].map(|ms| {
        let time = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
        time.map_or_else(|| format!("{ms} ms after 1970"), |time| time.to_string())
    });
    bail!(UsageError(format!(
        "the state was saved when the clock of this machine said {saved}, and now it says {present}: until then no window would end. \
         If the clock is wrong now, set it right; if it was wrong then, begin with another --state, which passes on once more what \
         this one knows"
    )));
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: u64 = 1_700_000_000_000;
    const YEARS_MS: u64 = 34 * 365 * 86_400_000;
    const MINUTE_MS: u64 = 60_000;

    /// For each element of `steps`, returns by how many milliseconds the clock is ahead of the true time. An element
    /// describes one moment: its first number is the true time since the start, and its second number is the error of
    /// the time of day, both in milliseconds.
    fn times_at(steps: &[(u64, i64)]) -> Vec<i64> {
        let mut arrivals = Arrivals::default();
        let at = |&(steady_ms, off_ms): &(u64, i64)| {
            let day_ms = (START_MS + steady_ms).saturating_add_signed(off_ms);
            let told_ms = arrivals.at(day_ms, Duration::from_millis(steady_ms));
            told_ms.wrapping_sub(START_MS + steady_ms).cast_signed()
        };
        steps.iter().map(at).collect()
    }

    #[test]
    fn time_passes_as_the_clocks_say_while_they_agree() {
        assert_eq!(times_at(&[(0, 0), (10, 0), (86_400_000, 0)]), [0, 0, 0]);
        assert_eq!(
            times_at(&[(0, 0), (10, 900), (20, 1800), (30, 1000)]),
            [0, 900, 1800, 1000],
            "set right as it goes"
        );
    }

    #[test]
    fn a_clock_that_is_wrong_for_minutes_moves_nothing() {
        let far = YEARS_MS.cast_signed();
        for off_ms in [far, 3_600_000, 2_000, -2_000, -3_600_000, -far] {
            let steps = [(0, 0), (1000, off_ms), (9 * MINUTE_MS, off_ms), (9 * MINUTE_MS + 1, 0), (15 * MINUTE_MS, 0)];
            assert_eq!(times_at(&steps), [0; 5], "{off_ms}");
            // A further jump starts the waiting time again.
            let steps = [(0, 0), (1000, off_ms), (9 * MINUTE_MS, off_ms + 5000), (18 * MINUTE_MS, off_ms + 5000)];
            assert_eq!(times_at(&steps), [0; 4], "{off_ms}");
        }
    }

    #[test]
    fn a_step_that_lasts_is_followed() {
        let day_ms = 86_400_000;
        // The first case is a machine that slept, and the second is a machine whose clock began in 1970.
        for off_ms in [8 * 3_600_000, YEARS_MS.cast_signed(), -200_000] {
            let steps = [(0, 0), (day_ms, off_ms), (day_ms + 10 * MINUTE_MS, off_ms), (2 * day_ms, off_ms)];
            assert_eq!(times_at(&steps), [0, 0, off_ms, off_ms], "{off_ms}");
        }
    }

    #[test]
    fn time_goes_on_where_the_clock_is_set_back_far() {
        let back_ms = -YEARS_MS.cast_signed();
        let steps = [(0, 0), (1000, back_ms), (20 * MINUTE_MS, back_ms), (90 * MINUTE_MS, back_ms)];
        assert_eq!(times_at(&steps), [0; 4], "a window of an hour has passed");
    }

    #[test]
    fn a_state_from_the_future_is_refused() {
        check_saved(None, START_MS).expect("one without a clock");
        check_saved(Some(START_MS + 5 * MINUTE_MS), START_MS).expect("as clocks differ");
        check_saved(Some(1), START_MS).expect("an old one");
        let error = check_saved(Some(START_MS + YEARS_MS), START_MS).expect_err("far ahead").to_string();
        for words in ["2057-", "2023-11-14", "--state"] {
            assert!(error.contains(words), "{words}: {error}");
        }
        check_saved(Some(u64::MAX), 0).expect_err("beyond all calendars");
    }
}
