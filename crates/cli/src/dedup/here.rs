//! Answers from a filter in this process, with everything that checks them.
//!
//! Promises: answers are checked in the order of the records. Must not know: where records go.

use std::ops::Range;

use firstseen_filter::{Digest, ExactWindow, FORESEEN_EVENTS_MAX, Stamp, Verdict};
use firstseen_routing::{Answer, SlicedDefinition, SlicedFilter};

use crate::dedup::beyond::BeyondWindow;
use crate::dedup::confirm::Confirm;
use crate::dedup::lateness::PastLateness;
use crate::input::{Batch, present_ms};
use crate::state::StateHeader;

/// A filter, and the exact answer or the exact cache beside it.
pub(super) struct Here {
    pub(super) filter: SlicedFilter,
    /// The definition and seed that a saved filter depends on.
    pub(super) header: StateHeader<SlicedDefinition>,
    pub(super) confirm: Option<Confirm>,
    pub(super) exact: Option<ExactWindow>,
    pub(super) lookup: bool,
    pub(super) times_ms: Vec<u64>,
    /// Those of the events that were answered last.
    pub(super) stamps: Vec<Stamp>,
    pub(super) past_lateness: PastLateness,
    pub(super) beyond: BeyondWindow,
    /// Whether the filter was saved by an earlier run.
    pub(super) is_continued: bool,
}

impl Here {
    /// Answers the events of `chunk`; `ahead_ms` has the times of the events behind the batch.
    pub(super) fn answer(&mut self, batch: &Batch, chunk: Range<usize>, ahead_ms: &[u64], answers: &mut Vec<Answer>) {
        let known = chunk.start..batch.parsed.len().min(chunk.end + FORESEEN_EVENTS_MAX);
        times_ms(batch, known.clone(), &mut self.times_ms);
        if batch.arrived_ms.is_some() {
            // A record that arrives now is not late, even where the clock of this machine was set back.
            let now_ms = self.filter.now_ms().unwrap_or(0);
            self.times_ms.iter_mut().for_each(|time_ms| *time_ms = now_ms.max(*time_ms));
        }
        if !self.times_ms.is_empty() && known.end == batch.parsed.len() {
            self.times_ms.extend_from_slice(ahead_ms);
        }
        self.filter.show_present_ms(present_ms());
        answers.clear();
        answers.resize(chunk.len(), Answer::Undecided);
        self.stamps.clear();
        let digests = &batch.parsed.digests()[chunk];
        let mut start = 0;
        while start < digests.len() {
            let piece = start..self.beyond.piece_end(&self.times_ms, start, digests.len());
            start = piece.end;
            self.answer_piece(&digests[piece.clone()], piece.start, &mut answers[piece]);
        }
        self.past_lateness.count(&self.stamps, answers, self.filter.now_unit());
    }

    /// Answers the events of a chunk from number `first` on, for which `digests` are.
    fn answer_piece(&mut self, digests: &[Digest], first: usize, answers: &mut [Answer]) {
        let Self { filter, beyond, stamps, .. } = self;
        let times_ms = self.times_ms.get(first..).unwrap_or_default();
        if self.lookup {
            filter.lookup_batch(digests, times_ms, answers);
        } else {
            filter.observe_batch(digests, times_ms, answers);
        }
        stamps.extend_from_slice(filter.stamps());
        let rule = &self.header.definition.group.rule;
        let times_ms = &times_ms[..times_ms.len().min(digests.len())];
        beyond.call_late(times_ms, answers, |event| {
            let stamp = filter.stamps()[event];
            filter.expiry(digests[event], stamp).is_none_or(|expiry| expiry > rule.expiry_max(stamp.unit))
        });
    }

    /// How far ahead of the others an event's time may be to be accepted without their confirmation; none where times
    /// do not matter.
    pub(super) fn step_ms(&self) -> Option<u64> {
        self.filter.needs_time().then_some(self.header.definition.group.future_max_ms)
    }

    /// Whether answers are checked.
    #[inline]
    pub(super) fn is_checked(&self) -> bool {
        self.confirm.is_some() || self.exact.is_some()
    }

    /// Gives the exact answer of the chunk's `place`th event the filter's answer, to compare the two.
    pub(super) fn measure(&mut self, digest: Digest, place: usize, answer: Answer) {
        let Some(exact) = &mut self.exact else { return };
        exact.observe(
            digest,
            self.stamps[place],
            match answer {
                Answer::FirstSeen => Verdict::FirstSeen,
                Answer::Duplicate => Verdict::Duplicate,
                _ => Verdict::Undecided,
            },
        );
    }

    /// Whether a duplicate, the `place`th event of the chunk, is certain; events that are first-seen are remembered for
    /// that.
    pub(super) fn is_certain(&mut self, digest: Digest, place: usize, answer: Answer) -> bool {
        let Some(confirm) = &mut self.confirm else { return true };
        let stamp = self.stamps[place];
        if answer == Answer::FirstSeen && !self.lookup {
            confirm.delivered(digest, self.header.definition.group.rule.expiry(stamp.unit));
        }
        answer != Answer::Duplicate || confirm.is_certain(digest, stamp.judged)
    }
}

/// The times of the events of `chunk`; none where no window needs them.
pub(super) fn times_ms(batch: &Batch, chunk: Range<usize>, times_ms: &mut Vec<u64>) {
    times_ms.clear();
    match batch.arrived_ms {
        Some(arrived_ms) => times_ms.resize(chunk.len(), arrived_ms),
        // The parser rejects times before 1970.
        None if !batch.parsed.times_ms().is_empty() => {
            times_ms.extend(batch.parsed.times_ms()[chunk].iter().map(|time_ms| time_ms.cast_unsigned()));
        }
        None => {}
    }
}
