//! Chooses the kind of a filter if no flag names a kind (`docs/decisions/42-default-kind.md`). For a sliding window,
//! both `timing` and `cuckoo` are suitable. The module chooses the kind that needs less memory for the requested
//! settings. The default lateness does not depend on this choice, so users see the same behaviour with both kinds.

use firstseen_filter::{FilterSpec, Geometry, Kind, Window};
use firstseen_routing::{DefinitionError, SlicedDefinition, Slicing};

/// Denominator of the default lateness. Without a flag, events may arrive late by this fraction of a sliding window: an
/// eighth.
const LATENESS_DEFAULT_PART: u64 = 8;

/// Where the times of events come from. Events whose time is the time of arrival can never be late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamps {
    /// The events carry their own times.
    OfEvents,
    /// Each event gets the time at which it arrives.
    OnArrival,
}

/// Filters that the flags can mean if they name no kind.
#[derive(Debug)]
pub struct KindChoice {
    /// The filter that is built now.
    pub now: FilterSpec,
    /// Filters that the same flags built when another kind was the default. A saved filter may still be one of these.
    pub formerly: Vec<FilterSpec>,
}

impl KindChoice {
    /// Returns a choice of exactly one filter, for flags that name the kind.
    pub fn only(now: FilterSpec) -> Self {
        Self { now, formerly: Vec::new() }
    }

    /// Applies `change` to each of the filters.
    pub fn change(&mut self, change: impl Fn(&mut FilterSpec)) {
        std::iter::once(&mut self.now).chain(&mut self.formerly).for_each(change);
    }

    /// Prefers kind `timing` over kind `cuckoo` for a sliding window.
    pub fn prefer_timing(&mut self) {
        if let Some(timing) = self.formerly.iter_mut().find(|spec| spec.kind == Kind::Timing) {
            std::mem::swap(timing, &mut self.now);
        }
    }

    /// Returns the definition of the filter to build. `made` is the definition of the saved filter that the run
    /// continues with, if there is one.
    ///
    /// The release that saved the filter may have had a different default kind. If the same flags would have produced
    /// the saved filter in that release, the function returns a definition of the saved filter's kind. The run can then
    /// continue with the saved filter.
    pub fn definition(
        &self,
        slicing: Slicing,
        made: Option<&SlicedDefinition>,
    ) -> Result<SlicedDefinition, DefinitionError> {
        let now = SlicedDefinition::new(&self.now, slicing);
        let Some(made) = made.filter(|_| !self.formerly.is_empty()) else { return now };
        let others = self.formerly.iter().map(|spec| SlicedDefinition::new(spec, slicing));
        let mut possible: Vec<SlicedDefinition> =
            now.as_ref().ok().cloned().into_iter().chain(others.flatten()).collect();
        let kind = made.group.cells.kind();
        let same = possible.iter().position(|one| one.answers_like(made));
        match same.or_else(|| possible.iter().position(|one| one.group.cells.kind() == kind)) {
            Some(index) => Ok(possible.swap_remove(index)),
            None => now,
        }
    }
}

/// Returns the filters that the settings `asked` can mean, whatever their kind is.
pub fn meant(asked: &FilterSpec, slicing: Slicing, stamps: Stamps) -> KindChoice {
    match asked.window {
        Window::Duration(_) | Window::Events(_) if asked.ticks.is_some() => {
            KindChoice::only(of_kind(Kind::Cuckoo, asked))
        }
        Window::Duration(_) | Window::Events(_) => {
            let timing = of_kind(Kind::Timing, asked);
            let punctual = of_kind(Kind::Cuckoo, asked);
            let cuckoo = FilterSpec { lateness_ms: lateness_ms(asked, stamps), ..punctual.clone() };
            if is_smaller(&cuckoo, &timing, slicing) {
                KindChoice { now: cuckoo, formerly: vec![timing, punctual] }
            } else {
                KindChoice { now: timing, formerly: vec![cuckoo, punctual] }
            }
        }
        _ => KindChoice::only(of_kind(Kind::Bloom, asked)),
    }
}

fn of_kind(kind: Kind, asked: &FilterSpec) -> FilterSpec {
    FilterSpec { kind, ..asked.clone() }
}

/// Returns the kind of a filter whose settings `asked` name no kind.
pub fn default_kind(asked: &FilterSpec, slicing: Slicing) -> Kind {
    meant(asked, slicing, Stamps::OfEvents).now.kind
}

/// Returns the default lateness of a filter with `window`, in milliseconds. `None` means that lateness does not apply.
/// This is the case for a window that counts events, and for a window that ends at landmarks.
pub fn lateness_default_ms(window: &Window) -> Option<u64> {
    match window {
        Window::Duration(window_ms) => Some(window_ms / LATENESS_DEFAULT_PART),
        _ => None,
    }
}

/// Returns the lateness, which is the same whatever kind is chosen.
fn lateness_ms(asked: &FilterSpec, stamps: Stamps) -> Option<u64> {
    match stamps {
        Stamps::OfEvents => asked.lateness_ms.or(lateness_default_ms(&asked.window)),
        Stamps::OnArrival => asked.lateness_ms,
    }
}

/// Returns whether the filter `one` uses memory better than the filter `other`. Of two filters with the same capacity,
/// the filter with less memory is better. If the user specified the memory instead of the capacity, the filter with
/// room for more events is better.
///
/// A filter without a known capacity grows as needed and cannot be compared, so the result is false for such a filter.
fn is_smaller(one: &FilterSpec, other: &FilterSpec, slicing: Slicing) -> bool {
    let Ok(one) = SlicedDefinition::new(one, slicing) else { return false };
    let Ok(other) = SlicedDefinition::new(other, slicing) else { return one.group.capacity_events.is_some() };
    match (one.group.capacity_events, other.group.capacity_events) {
        (Some(events), Some(others)) if events == others => {
            let [bytes, other_bytes] =
                [&one, &other].map(|definition| definition.group.cells.geometry().map_or(u64::MAX, Geometry::bytes));
            bytes < other_bytes
        }
        (Some(events), Some(others)) => events > others,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(window: &str, rate: f64, events: u64) -> FilterSpec {
        FilterSpec { rate, capacity_events: Some(events), ..FilterSpec::new(Kind::Timing, window.parse().unwrap()) }
    }

    fn kind(asked: &FilterSpec) -> Kind {
        default_kind(asked, Slicing::NONE)
    }

    #[test]
    fn the_smaller_kind_is_chosen() {
        for rate in [0.1, 0.01, 0.001, 1e-6, 1e-8] {
            assert_eq!(kind(&asked("24h", rate, 10_000_000)), Kind::Cuckoo, "{rate}");
            assert_eq!(kind(&asked("24h", rate, 100)), Kind::Timing, "{rate}: a region is 64 KiB");
        }
        assert_eq!(kind(&asked("10000000events", 0.01, 10_000_000)), Kind::Cuckoo);
        assert_eq!(kind(&asked("24h", 1e-9, 10_000_000)), Kind::Timing, "no fingerprints have that rate");
        assert_eq!(kind(&asked("unbounded", 0.01, 10_000_000)), Kind::Bloom);
        assert_eq!(kind(&asked("landmark:1d", 0.01, 10_000_000)), Kind::Bloom);
        // Each of the 1,024 slices has at least 64 KiB.
        let slices: Slicing = "horizontal:1024".parse().unwrap();
        assert_eq!(default_kind(&asked("24h", 0.01, 1_000_000), slices), Kind::Timing);
        assert_eq!(default_kind(&asked("24h", 0.01, 100_000_000), slices), Kind::Cuckoo);
    }

    #[test]
    fn what_only_one_kind_has_decides() {
        let large = asked("24h", 0.01, 10_000_000);
        for only_timing in [
            FilterSpec { hashes: Some(4), ..large.clone() },
            FilterSpec { layout: Some(firstseen_filter::Layout::Classic), ..large.clone() },
            FilterSpec { cell_bits: Some(16), ..large.clone() },
            FilterSpec { equal_timers: 2, ..large.clone() },
            FilterSpec { cells: Some(1 << 20), capacity_events: None, ..large.clone() },
            FilterSpec { capacity_events: None, ..large.clone() },
            FilterSpec { lateness_ms: Some(86_400_000), ..asked("24h", 0.01, 5_000) },
        ] {
            assert_eq!(kind(&only_timing), Kind::Timing, "{only_timing:?}");
        }
        assert_eq!(default_kind(&large, "vertical:8".parse().unwrap()), Kind::Timing);
        assert_eq!(kind(&FilterSpec { ticks: Some(20), ..asked("24h", 0.01, 100) }), Kind::Cuckoo);
        let given = |bytes| FilterSpec { memory_bytes: Some(bytes), capacity_events: None, ..large.clone() };
        assert_eq!([given(64 << 20), given(32 << 10)].map(|asked| kind(&asked)), [Kind::Cuckoo, Kind::Timing]);
    }

    #[test]
    fn the_lateness_does_not_depend_on_the_kind() {
        let large = asked("24h", 0.01, 10_000_000);
        let lateness = |stamps| meant(&large, Slicing::NONE, stamps).now.lateness_ms;
        assert_eq!((lateness(Stamps::OfEvents), lateness(Stamps::OnArrival)), (Some(3 * 3_600_000), None));
        let asked = FilterSpec { lateness_ms: Some(60_000), ..large };
        assert_eq!(meant(&asked, Slicing::NONE, Stamps::OfEvents).now.lateness_ms, Some(60_000));
    }

    #[test]
    fn what_was_made_when_another_kind_was_the_default_stays() {
        let large = asked("24h", 0.01, 10_000_000);
        let meant = meant(&large, Slicing::NONE, Stamps::OfEvents);
        let definition = |spec: FilterSpec| SlicedDefinition::new(&spec, Slicing::NONE).unwrap();
        for kind in [Kind::Timing, Kind::Cuckoo] {
            let made = definition(FilterSpec { kind, ..large.clone() });
            assert_eq!(meant.definition(Slicing::NONE, Some(&made)).unwrap(), made);
        }
        let other = definition(FilterSpec { rate: 0.5, ..large.clone() });
        assert_eq!(meant.definition(Slicing::NONE, Some(&other)).unwrap().group.cells.kind(), Kind::Timing);
        let foreign = definition(FilterSpec { kind: Kind::Generations, ..large });
        assert_eq!(meant.definition(Slicing::NONE, Some(&foreign)).unwrap().group.cells.kind(), Kind::Cuckoo);
    }
}
