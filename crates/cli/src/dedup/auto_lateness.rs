//! Chooses the lateness of a filter from the first records of the input (`--lateness auto`). Lateness is the time by
//! which a record may be older than preceding records and still be judged exactly. The chosen value is at least the
//! default lateness and at most the maximum that the window allows. A message tells the user which value was chosen and
//! why.

use firstseen_embedded::lateness_default_ms;
use firstseen_filter::{FilterDefinition, Placed, Window, WindowClock, duration};

use crate::input::disorder::{Disorder, Order, rounded_up_ms};
use crate::input::present_ms;
use crate::text::numbers::grouped;

/// Maximum lateness of records, as a multiple of the window.
pub(super) const LATENESS_WINDOWS_MAX: u64 = 2;

/// The lateness that was chosen for a window, and the reason.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chosen {
    /// Lateness in milliseconds. `None` means that the window determines the lateness.
    pub(super) lateness_ms: Option<u64>,
    /// Message that says what was chosen and why.
    pub(super) line: String,
}

/// Chooses the lateness for an input whose first records have the times `times_ms`. `definition` is the filter with the
/// default lateness.
pub(super) fn choose(definition: &FilterDefinition, times_ms: &[u64]) -> Chosen {
    let (Window::Duration(window_ms), Some(default_ms)) = (&definition.window, lateness_default_ms(&definition.window))
    else {
        let line = format!("firstseen: --lateness auto: window {} has no lateness", definition.window);
        return Chosen { lateness_ms: None, line };
    };
    let most_ms = window_ms.saturating_mul(LATENESS_WINDOWS_MAX);
    let Late { most_of_all_ms, greatest_ms } = late(definition, times_ms);
    let spare_ms = rounded_up_ms(most_of_all_ms.saturating_add(most_of_all_ms / 2));
    let lateness_ms = spare_ms.clamp(default_ms, most_ms.max(default_ms));
    let records = grouped(times_ms.len() as u64);
    let order = Disorder::of(times_ms).order;
    let why = match order {
        Order::Descending => format!("times go backwards in the first {records} records: sort oldest first"),
        Order::Unsorted => format!("the first {records} records are in no order of time: sort them by time"),
        _ if greatest_ms > lateness_ms => {
            format!("of the first {records} records, the latest comes {} late", duration(rounded_up_ms(greatest_ms)))
        }
        _ if most_of_all_ms == 0 => format!("none of the first {records} records is late"),
        _ => format!("the first {records} records come up to {} late", duration(rounded_up_ms(greatest_ms))),
    };
    let is_most = if lateness_ms == most_ms { " is the most that the window allows" } else { "" };
    let line = format!("firstseen: --lateness auto: {why}; --lateness {}{is_most}", Window::Duration(lateness_ms));
    Chosen { lateness_ms: Some(lateness_ms), line }
}

/// Statistics of how late records come.
struct Late {
    /// Lateness in milliseconds that all but one thousandth of the records stay within.
    most_of_all_ms: u64,
    greatest_ms: u64,
}

/// Measures how late records come, compared with the records that the clock of a filter has accepted before them.
fn late(definition: &FilterDefinition, times_ms: &[u64]) -> Late {
    let mut clock = WindowClock::new(definition.unit.clone(), definition.rule, definition.future_max_ms);
    clock.show_present_ms(present_ms());
    let mut late_ms: Vec<u64> = Vec::with_capacity(times_ms.len());
    for (event, time_ms) in times_ms.iter().enumerate() {
        if clock.place_nth(times_ms, event) != Placed::Refused {
            late_ms.push(clock.now_ms().unwrap_or(*time_ms).saturating_sub(*time_ms));
        }
    }
    late_ms.sort_unstable();
    let place = (late_ms.len() * 999).div_ceil(1000).saturating_sub(1);
    Late { most_of_all_ms: late_ms.get(place).copied().unwrap_or(0), greatest_ms: late_ms.last().copied().unwrap_or(0) }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind};

    use super::*;

    const START_MS: u64 = 1_431_000_000_000;
    const MINUTE_MS: u64 = 60_000;

    fn chosen(window: &str, kind: Kind, times_ms: &[u64]) -> (Option<u64>, String) {
        let spec =
            FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(kind, window.parse().expect("a window")) };
        let Chosen { lateness_ms, line } = choose(&spec.resolve().expect("a definition"), times_ms);
        (lateness_ms, line)
    }

    fn log(lines: u64, behind_ms: impl Fn(u64) -> u64) -> Vec<u64> {
        (0..lines).map(|line| START_MS + line * 1_000 - behind_ms(line)).collect()
    }

    #[test]
    fn a_log_in_order_gets_the_default() {
        let (lateness_ms, line) = chosen("1h", Kind::Timing, &log(2_000, |_| 0));
        assert_eq!(lateness_ms, Some(450_000));
        assert_eq!(line, "firstseen: --lateness auto: none of the first 2,000 records is late; --lateness 450s");
        assert_eq!(chosen("1h", Kind::Timing, &[]).0, Some(450_000));
    }

    #[test]
    fn records_that_come_late_get_half_as_much_again() {
        let times_ms = log(9_000, |line| if line % 3 == 2 { 0 } else { 15 * MINUTE_MS });
        let (lateness_ms, line) = chosen("1h", Kind::Timing, &times_ms);
        assert_eq!(lateness_ms, Some(23 * MINUTE_MS), "{line}");
        assert!(line.ends_with("the first 9,000 records come up to 15m late; --lateness 23m"), "{line}");
        // A few records that are much later, and wrong times, do not affect the choice.
        let times_ms = log(9_000, |line| if line % 2_000 == 1_999 { 1_500 * 1_000 } else { 0 });
        assert_eq!(chosen("1h", Kind::Timing, &times_ms).0, Some(450_000));
        let mut times_ms = log(9_000, |_| 0);
        (50..9_000).step_by(100).for_each(|line| times_ms[line] += 500 * 60 * MINUTE_MS);
        assert_eq!(chosen("1h", Kind::Timing, &times_ms).0, Some(450_000));
    }

    #[test]
    fn no_more_than_the_window_allows_is_chosen() {
        let times_ms = log(9_000, |line| if line % 3 == 2 { 0 } else { 30 * MINUTE_MS });
        let (lateness_ms, line) = chosen("10m", Kind::Timing, &times_ms);
        assert_eq!(lateness_ms, Some(20 * MINUTE_MS));
        assert!(
            line.contains("the latest comes 30m late; --lateness 20m is the most that the window allows"),
            "{line}"
        );
        let backwards: Vec<u64> = log(9_000, |_| 0).into_iter().rev().collect();
        assert!(chosen("10m", Kind::Timing, &backwards).1.contains("times go backwards"));
        let (lateness_ms, line) = chosen("landmark:1h", Kind::Bloom, &times_ms);
        assert!(lateness_ms.is_none() && line.ends_with("window landmark:1h has no lateness"), "{line}");
    }
}
