//! Judges batches of events by a filter in this process.

use std::ops::Range;

use firstseen_filter::{Digest, Geometry, Stamp};
use firstseen_routing::{Answer, BATCH_EVENTS, SlicedBuildError, SlicedDefinition, SlicedFilter};

use crate::beyond::BeyondWindow;

/// Returns whether `source_bytes` bytes can contain the cells of a filter with this definition. A definition that comes
/// from a file must be checked before the filter is built, because it decides how much memory the filter takes.
pub fn can_contain(source_bytes: u64, definition: &SlicedDefinition) -> bool {
    let Ok(slice) = definition.slice() else { return false };
    let bytes = slice.cells.geometry().map_or_else(|| slice.bytes_max(), Geometry::bytes);
    let bytes = bytes.saturating_mul(definition.slicing.slices().into());
    // Some kinds need less room in a file than in memory.
    bytes / 4 <= source_bytes
}

/// Whether new events are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// New events are recorded.
    Observe,
    /// Events are only looked up.
    Lookup,
}

/// A filter in this process, and the clock of the events that it has judged. An event that is more than one window older
/// than this clock is answered as late, if the filter may have confused it with an equal event of another window.
///
/// ```
/// use firstseen_embedded::{Access, Judge};
/// use firstseen_filter::{FilterSecret, FilterSpec, Kind};
/// use firstseen_routing::{Answer, SlicedDefinition, Slicing};
/// let spec = FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(Kind::Timing, "1h".parse().unwrap()) };
/// let mut judge = Judge::build(&SlicedDefinition::new(&spec, Slicing::NONE).unwrap()).unwrap();
/// let click = FilterSecret::from_seed(1).digest(b"click-1");
/// let mut answers = [Answer::Undecided; 2];
/// judge.answer(Access::Observe, &[click; 2], &[3_600_000, 3_600_001], &mut answers);
/// assert_eq!(answers, [Answer::FirstSeen, Answer::Duplicate]);
/// ```
pub struct Judge {
    filter: SlicedFilter,
    definition: SlicedDefinition,
    /// Clock of the events that were observed.
    observed: BeyondWindow,
    /// Clock of the events that were looked up since [`Judge::begin_lookups`], and of those that were observed before.
    looked_up: BeyondWindow,
    /// Stamps of the events of the last batch.
    stamps: Vec<Stamp>,
}

impl Judge {
    /// Creates an empty filter with this definition.
    ///
    /// # Errors
    /// Returns [`SlicedBuildError`] if memory is not available, or if the definition does not come from
    /// [`SlicedDefinition::new`].
    pub fn build(definition: &SlicedDefinition) -> Result<Self, SlicedBuildError> {
        Ok(Self::of(SlicedFilter::build(definition)?, definition))
    }

    /// Judges events by `filter`, which has this `definition` and can contain events already.
    pub fn of(filter: SlicedFilter, definition: &SlicedDefinition) -> Self {
        let beyond = BeyondWindow::new(&definition.group.window, filter.now_ms().unwrap_or(0));
        Self { filter, definition: definition.clone(), observed: beyond, looked_up: beyond, stamps: Vec::new() }
    }

    /// Returns the filter.
    pub fn filter(&self) -> &SlicedFilter {
        &self.filter
    }

    /// Returns the filter for changes that concern no event.
    pub fn filter_mut(&mut self) -> &mut SlicedFilter {
        &mut self.filter
    }

    /// Returns the stamps of the last batch, which say where in time each event was judged. If an event lies outside of
    /// the window, its stamp must not be used.
    pub fn stamps(&self) -> &[Stamp] {
        &self.stamps
    }

    /// Lets the lookups that follow not depend on earlier lookups. Without this call, a lookup of a later time makes
    /// lookups of earlier times late, as if the events were the records of one file.
    pub fn begin_lookups(&mut self) {
        self.looked_up = self.observed;
    }

    /// Judges the events with these digests, in order. `times_ms` has the time of each event in milliseconds since 1970,
    /// and can also have times of later events, as described at [`SlicedFilter::observe_batch`]. It is empty if the
    /// window needs no times.
    ///
    /// # Panics
    /// Panics if the number of times is neither 0 nor at least the number of events, or if the number of answers differs
    /// from the number of events.
    pub fn answer(&mut self, access: Access, digests: &[Digest], times_ms: &[u64], answers: &mut [Answer]) {
        self.stamps.clear();
        let mut start = 0;
        while start < digests.len() {
            let limit = digests.len().min(start + BATCH_EVENTS);
            let clock = match access {
                Access::Observe => &self.observed,
                Access::Lookup => &self.looked_up,
            };
            let end = clock.piece_end(times_ms, start, limit);
            self.answer_piece(access, start..end, digests, times_ms, answers);
            start = end;
        }
    }

    fn answer_piece(
        &mut self,
        access: Access,
        piece: Range<usize>,
        digests: &[Digest],
        times_ms: &[u64],
        answers: &mut [Answer],
    ) {
        let Self { filter, definition, observed, looked_up, stamps } = self;
        let digests = &digests[piece.clone()];
        let times_ms = times_ms.get(piece.start..).unwrap_or_default();
        let answers = &mut answers[piece];
        let clock = match access {
            Access::Observe => {
                filter.observe_batch(digests, times_ms, answers);
                observed
            }
            Access::Lookup => {
                filter.lookup_batch(digests, times_ms, answers);
                looked_up
            }
        };
        stamps.extend_from_slice(filter.stamps());
        let rule = &definition.group.rule;
        let times_ms = &times_ms[..times_ms.len().min(digests.len())];
        clock.call_late(times_ms, answers, |event| {
            let stamp = filter.stamps()[event];
            filter.expiry(digests[event], stamp).is_none_or(|expiry| expiry > rule.expiry_max(stamp.unit))
        });
    }
}
