//! Determines how the records of an input are ordered by time, from a sample of consecutive records. For example, the
//! records may be sorted, nearly sorted, or in reverse order. A few wrong times do not change the result: in a sample
//! of at least a hundred records, one hundredth of the times may be wrong.

/// Minimum number of times for excluding wrong times and for detecting a trend.
const TREND_MIN: usize = 16;

/// Denominator of the share of times that may be wrong: one in this many.
const BROKEN_PART: usize = 100;

/// How the times of consecutive records are ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// No time is earlier than the time before it.
    Ascending,
    /// Times rise on the whole, but some records come after records with later times.
    Disordered,
    /// Times fall.
    Descending,
    /// Times neither rise nor fall, because the records are sorted by something else.
    Unsorted,
}

/// The order of times, and the lateness that is needed to judge all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Disorder {
    /// Order of the times.
    pub(crate) order: Order,
    /// Maximum lateness in milliseconds: how much earlier than a preceding record the time of a record is.
    pub(crate) behind_ms: u64,
}

impl Disorder {
    /// Measures the disorder of records with these times.
    pub(crate) fn of(times_ms: &[u64]) -> Self {
        let plausible_ms = without_broken(times_ms);
        let behind_ms = greatest_behind_ms(&plausible_ms);
        let mut rises = 0_usize;
        let mut falls = 0_usize;
        for pair in plausible_ms.windows(2) {
            rises += usize::from(pair[0] < pair[1]);
            falls += usize::from(pair[0] > pair[1]);
        }
        let order = match falls {
            0 => Order::Ascending,
            2.. if falls >= 3 * rises && have_fallen(&plausible_ms) => Order::Descending,
            _ if is_unsorted(&plausible_ms, behind_ms) => Order::Unsorted,
            _ => Order::Disordered,
        };
        Self { order, behind_ms }
    }
}

/// Returns the times without those that are far from nearly all other times.
fn without_broken(times_ms: &[u64]) -> Vec<u64> {
    if times_ms.len() < TREND_MIN {
        return times_ms.to_vec();
    }
    let mut sorted_ms = times_ms.to_vec();
    sorted_ms.sort_unstable();
    let last = sorted_ms.len() - 1;
    // The sample excludes twice the expected share of wrong times, because some parts of an input may have more of
    // them.
    let left_out = last.div_ceil(BROKEN_PART / 2);
    let low_ms = sorted_ms[left_out];
    let high_ms = sorted_ms[last - left_out];
    let margin_ms = (high_ms - low_ms) / 8;
    let plausible_ms = low_ms.saturating_sub(margin_ms)..=high_ms.saturating_add(margin_ms);
    times_ms.iter().copied().filter(|time_ms| plausible_ms.contains(time_ms)).collect()
}

fn greatest_behind_ms(times_ms: &[u64]) -> u64 {
    let mut front_ms = 0;
    let behind_ms = times_ms.iter().map(|time_ms| {
        front_ms = front_ms.max(*time_ms);
        front_ms - time_ms
    });
    behind_ms.max().unwrap_or(0)
}

/// Returns whether the times of the sample fall as a whole, which means that the second half of the sample is clearly
/// earlier than the first half. If the sample is too small to show this, the result is true.
///
/// The test distinguishes an input in reverse order from an export that is sorted by user, with the newest record of
/// each user first. In such an export, many records are earlier than the record before them too, but the two halves
/// cover the same period.
fn have_fallen(times_ms: &[u64]) -> bool {
    let (first, second) = times_ms.split_at(times_ms.len() / 2);
    times_ms.len() < TREND_MIN || middle_ms(first).saturating_sub(middle_ms(second)) > span_ms(times_ms) / 8
}

/// Returns whether the second half of the records is no later than the first half although the times are far apart.
fn is_unsorted(times_ms: &[u64], behind_ms: u64) -> bool {
    if times_ms.len() < TREND_MIN {
        return false;
    }
    let span_ms = span_ms(times_ms);
    let (first, second) = times_ms.split_at(times_ms.len() / 2);
    let risen_ms = middle_ms(second).saturating_sub(middle_ms(first));
    behind_ms > span_ms / 4 && risen_ms < span_ms / 8
}

fn span_ms(times_ms: &[u64]) -> u64 {
    times_ms.iter().max().zip(times_ms.iter().min()).map_or(0, |(greatest_ms, least_ms)| greatest_ms - least_ms)
}

fn middle_ms(times_ms: &[u64]) -> u64 {
    let mut times_ms = times_ms.to_vec();
    let middle = times_ms.len() / 2;
    *times_ms.select_nth_unstable(middle).1
}

/// Rounds `length_ms` up to a duration that is easy to read. At least two digits of the largest unit are kept.
pub(crate) fn rounded_up_ms(length_ms: u64) -> u64 {
    const UNITS_MS: [u64; 3] = [86_400_000, 3_600_000, 60_000];
    let unit_ms = UNITS_MS.into_iter().find(|unit_ms| length_ms >= 2 * unit_ms).unwrap_or(1000);
    length_ms.div_ceil(unit_ms).max(1).saturating_mul(unit_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR_MS: u64 = 3_600_000;
    const START_MS: u64 = 1_431_000_000_000;

    fn log(lines: u64) -> Vec<u64> {
        (0..lines).map(|line| START_MS + line * 700).collect()
    }

    fn reversed(mut times_ms: Vec<u64>) -> Vec<u64> {
        times_ms.reverse();
        times_ms
    }

    fn order(times_ms: &[u64]) -> Order {
        Disorder::of(times_ms).order
    }

    #[test]
    fn logs_rise_and_their_reverse_falls() {
        for lines in [3, 15, 16, 120, 5_000] {
            let (log, reversed) = (log(lines), reversed(log(lines)));
            assert_eq!(Disorder::of(&log), Disorder { order: Order::Ascending, behind_ms: 0 }, "{lines}");
            let behind_ms = (lines - 1) * 700;
            assert_eq!(Disorder::of(&reversed), Disorder { order: Order::Descending, behind_ms }, "{lines}");
        }
        assert_eq!(order(&[]), Order::Ascending);
        assert_eq!([order(&[7, 7, 7]), order(&[7, 8, 6])], [Order::Ascending, Order::Disordered]);
        // A reversed log with times in whole seconds, in which some lines were late.
        let seconds: Vec<u64> = (0..2_000).map(|line| START_MS + line / 4 * 1000 - line % 11 / 10 * 5_000).collect();
        assert_eq!(order(&seconds), Order::Disordered);
        assert_eq!(order(&reversed(seconds)), Order::Descending);
    }

    #[test]
    fn an_export_that_is_sorted_by_another_column_is_unsorted() {
        // Each user has records from the whole day.
        let by_user: Vec<u64> = (0..4_000).map(|record| START_MS + record % 40 * HOUR_MS / 2).collect();
        let Disorder { order, behind_ms } = Disorder::of(&by_user);
        assert_eq!((order, behind_ms), (Order::Unsorted, 39 * HOUR_MS / 2));
        let newest_first: Vec<u64> = (0..4_000).map(|record| START_MS + (39 - record % 40) * HOUR_MS / 2).collect();
        assert_eq!(Disorder::of(&newest_first).order, Order::Unsorted);
        let hashed: Vec<u64> = (0..4_000).map(|record: u64| START_MS + record * 7_919 % 4_001 * 1_000).collect();
        assert_eq!(Disorder::of(&hashed).order, Order::Unsorted);
    }

    #[test]
    fn producers_that_are_behind_and_late_delivery_are_disorder() {
        let shippers: Vec<u64> =
            (0..9_000).map(|event| START_MS + event * 1000 - if event % 3 == 2 { 0 } else { HOUR_MS / 4 }).collect();
        let Disorder { order, behind_ms } = Disorder::of(&shippers);
        assert!(order == Order::Disordered && behind_ms.abs_diff(HOUR_MS / 4) <= 2_000, "{order:?} {behind_ms}");
        let late: Vec<u64> =
            (0..9_000).map(|event: u64| START_MS + event * 1000 - event * 7_919 % 601 * 1000).collect();
        let Disorder { order, behind_ms } = Disorder::of(&late);
        assert!(order == Order::Disordered && (550_000..=601_000).contains(&behind_ms), "{order:?} {behind_ms}");
    }

    #[test]
    fn broken_times_do_not_count() {
        for broken_ms in [0, START_MS + 400 * 24 * HOUR_MS, u64::MAX] {
            let mut log = log(5_000);
            (7..5_000).step_by(100).for_each(|line| log[line] = broken_ms);
            assert_eq!(Disorder::of(&log), Disorder { order: Order::Ascending, behind_ms: 0 }, "{broken_ms}");
        }
    }

    #[test]
    fn lengths_are_rounded_up() {
        let rounded = [0, 1, 1_000, 119_001, 120_001, 7_199_999, 7_200_001, 48 * HOUR_MS + 1].map(rounded_up_ms);
        let minute_ms = 60_000;
        assert_eq!(rounded, [1_000, 1_000, 1_000, 120_000, 3 * minute_ms, 120 * minute_ms, 3 * HOUR_MS, 72 * HOUR_MS]);
        assert_eq!(rounded_up_ms(u64::MAX), u64::MAX);
    }
}
