//! Answers events with a filter in this process, and checks the answers if flags ask for checks. The checks remember
//! earlier events, so the answers are checked in the order of the records.

use std::ops::Range;
use std::path::Path;

use firstseen_embedded::{Access, Judge, StateHeader};
use firstseen_filter::{Digest, ExactWindow, FIRST_CAPACITY_EVENTS, FORESEEN_EVENTS_MAX, FilterDefinition, Verdict};
use firstseen_records::Records;
use firstseen_routing::{Answer, SlicedDefinition};

use super::confirm::Confirm;
use super::lateness::PastLateness;
use super::verdicts::Verdicts;
use crate::driver::Decider;
use crate::input::{Batch, present_ms};
use crate::report::describe::describe;
use crate::report::filter::{FilterReport, LocalReport};
use crate::report::{Confirmed, Verified};
use crate::state;

/// A filter in this process, together with the exact filter or exact cache that checks its answers.
pub(super) struct LocalDecider {
    pub(super) judge: Judge,
    /// Definition and seed, which a saved filter depends on.
    pub(super) header: StateHeader<SlicedDefinition>,
    pub(super) confirm: Option<Confirm>,
    pub(super) exact: Option<ExactWindow>,
    pub(super) lookup: bool,
    /// Times of the events after the batch that is being answered.
    pub(super) ahead_ms: Vec<u64>,
    pub(super) times_ms: Vec<u64>,
    pub(super) past_lateness: PastLateness,
    /// Whether the filter was loaded from the state of an earlier run.
    pub(super) is_continued: bool,
}

impl LocalDecider {
    /// Answers event number `place` of the chunk exactly, and compares the result with the filter's answer.
    fn measure(&mut self, digest: Digest, place: usize, answer: Answer) {
        let Some(exact) = &mut self.exact else { return };
        let verdict = match answer {
            Answer::FirstSeen => Verdict::FirstSeen,
            Answer::Duplicate => Verdict::Duplicate,
            _ => Verdict::Undecided,
        };
        exact.observe(digest, self.judge.stamps()[place], verdict);
    }
}

impl<R: Records> Decider<R> for LocalDecider {
    type Decision = Answer;

    fn step_ms(&self) -> Option<u64> {
        self.judge.filter().needs_time().then_some(self.header.definition.group.future_max_ms)
    }

    fn submit(&mut self, batch: Box<Batch<R>>, ahead_ms: &[u64]) -> anyhow::Result<Option<Box<Batch<R>>>> {
        self.ahead_ms.clear();
        self.ahead_ms.extend_from_slice(ahead_ms);
        Ok(Some(batch))
    }

    fn decide(&mut self, batch: &Batch<R>, chunk: Range<usize>, answers: &mut Vec<Answer>) {
        let known = chunk.start..batch.parsed.len().min(chunk.end + FORESEEN_EVENTS_MAX);
        batch.copy_times_ms(known.clone(), &mut self.times_ms);
        if batch.arrived_ms.is_some() {
            // A record that arrives now is never late, even if the clock of this machine was set back.
            let now_ms = self.judge.filter().now_ms().unwrap_or(0);
            self.times_ms.iter_mut().for_each(|time_ms| *time_ms = now_ms.max(*time_ms));
        }
        if !self.times_ms.is_empty() && known.end == batch.parsed.len() {
            self.times_ms.extend_from_slice(&self.ahead_ms);
        }
        self.judge.filter_mut().show_present_ms(present_ms());
        answers.clear();
        answers.resize(chunk.len(), Answer::Undecided);
        let access = if self.lookup { Access::Lookup } else { Access::Observe };
        self.judge.answer(access, &batch.parsed.digests()[chunk], &self.times_ms, answers);
        self.past_lateness.count(self.judge.stamps(), answers, self.judge.filter().now_unit());
    }

    fn save(&self, path: &Path) -> anyhow::Result<()> {
        state::save(path, &self.header, |body| self.judge.filter().write_body(body))
    }
}

impl<R: Records> Verdicts<R> for LocalDecider {
    fn group(&self) -> &FilterDefinition {
        &self.header.definition.group
    }

    fn definition(&self) -> Option<&FilterDefinition> {
        Some(&self.header.definition.group)
    }

    fn clock_ms(&self) -> Option<u64> {
        self.judge.filter().now_ms()
    }

    fn past_lateness(&self) -> Option<usize> {
        self.past_lateness.first
    }

    #[inline]
    fn is_checked(&self) -> bool {
        self.confirm.is_some() || self.exact.is_some()
    }

    fn check(&mut self, digest: Digest, place: usize, answer: Answer) -> bool {
        self.measure(digest, place, answer);
        let Some(confirm) = &mut self.confirm else { return true };
        let stamp = self.judge.stamps()[place];
        if answer == Answer::FirstSeen && !self.lookup {
            confirm.delivered(digest, self.header.definition.group.rule.expiry(stamp.unit));
        }
        answer != Answer::Duplicate || confirm.is_certain(digest, stamp.judged)
    }

    fn confirmed(&self) -> Option<Confirmed> {
        self.confirm.as_ref().map(|confirm| confirm.counts)
    }

    fn verified(&self) -> Option<Verified> {
        self.exact.as_ref().map(|exact| exact.tally().into())
    }

    fn report(&mut self) -> FilterReport {
        let Self { judge, header: StateHeader { definition, seed, .. }, past_lateness, .. } = self;
        let filter = judge.filter_mut();
        let sized_for = definition.group.capacity_events.map(|events| events * u64::from(definition.slicing.groups()));
        // A filter that started small has room for at least this number of events.
        let room_events = sized_for.or_else(|| filter.live_events().map(|events| events.max(FIRST_CAPACITY_EVENTS)));
        FilterReport::Local(LocalReport {
            filter_bytes: filter.bytes(),
            bits_per_event: room_events.map(|events| filter.bytes() as f64 * 8.0 / events as f64),
            expected_fpr: filter.expected_rate(),
            filter: describe(definition),
            window: definition.group.window.to_string(),
            seed: *seed,
            past_lateness: past_lateness.events,
            past_lateness_meaning: past_lateness.meaning(&definition.group),
        })
    }
}
