//! A batch through the filter: its answers, their counts, and the output of each record.
//!
//! Promises: answers come in the order of the records; every record goes to one output, in the order of the input, but for
//! those that the user wants dropped. Must not know: files, threads.

use std::ops::Range;
use std::time::Instant;

use firstseen_filter::Digest;
use firstseen_records::{RejectReason, Rejection};
use firstseen_routing::Answer;

use super::LateArg;
use super::here::Here;
use super::lateness::lateness_ms;
use super::order::{OrderOfInput, Ordered};
use super::remote::Remote;
use super::tally::{Event, Tally};
use super::troubles::Troubles;
use crate::input::Batch;
use crate::input::left_out::LeftOut;
use crate::output::Output;
use crate::report::Counts;
use crate::terminal::progress::Progress;
use crate::unjudged::counts::{Place, Unjudged};
use crate::unjudged::gate::Turn;
use crate::unjudged::{Fate, UnjudgedReason};

/// Events that are answered before they are counted and written: their answers stay in the first cache.
const CHUNK_EVENTS: usize = 4096;

/// Where records go.
pub(super) struct Outputs {
    pub(super) first_seen: Output,
    pub(super) duplicates: Output,
    /// Used only with `--uncertain`; otherwise these records go to the duplicates.
    pub(super) uncertain: Output,
    pub(super) rejected: Output,
}

impl Outputs {
    fn each(&mut self) -> [&mut Output; 4] {
        [&mut self.first_seen, &mut self.duplicates, &mut self.uncertain, &mut self.rejected]
    }

    fn of(&mut self, destination: Destination) -> &mut Output {
        match destination {
            Destination::FirstSeen => &mut self.first_seen,
            Destination::Uncertain if self.uncertain.is_kept() => &mut self.uncertain,
            Destination::Duplicates | Destination::Uncertain => &mut self.duplicates,
        }
    }

    /// The output of a record that cannot be judged, if it goes anywhere.
    fn of_unjudged(&mut self, fate: Fate) -> Option<&mut Output> {
        match fate {
            Fate::Passed => Some(&mut self.first_seen),
            Fate::Rejected => Some(&mut self.rejected),
            Fate::Dropped => None,
        }
    }

    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        self.each().into_iter().try_for_each(Output::begin)
    }

    /// Does what the gate says.
    pub(super) fn turn(&mut self, turn: Turn) -> anyhow::Result<()> {
        match turn {
            Turn::Stay => Ok(()),
            Turn::Release => self.each().into_iter().try_for_each(Output::release),
            Turn::Open => self.each().into_iter().try_for_each(Output::open),
        }
    }

    /// The run ends before anything was written.
    pub(super) fn discard(&mut self) {
        self.each().into_iter().for_each(Output::discard);
    }

    /// Checks, before any record of `batch` is answered, that output files of earlier runs begin with its header.
    pub(super) fn check_header(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let Some(header) = batch.new_header() else { return Ok(()) };
        self.each().into_iter().try_for_each(|output| output.check_header(header))
    }

    fn end_block(&mut self, block: &[u8]) -> anyhow::Result<()> {
        self.each().into_iter().try_for_each(|output| output.end_block(block))
    }

    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        self.each().into_iter().try_for_each(Output::flush)
    }

    pub(super) fn sync(&mut self) -> anyhow::Result<()> {
        self.each().into_iter().try_for_each(Output::sync)
    }
}

/// Where answers come from: a filter here, or a cluster.
pub(super) enum Source {
    /// A filter in this process.
    Here(Box<Here>),
    /// A filter of a cluster.
    Cluster(Box<Remote>),
}

impl Source {
    /// Whether events are claimed, so that another one may hold them.
    fn has_claims(&self) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Cluster(remote) => remote.has_claims(),
        }
    }

    /// Whether another one holds event `index` of the batch that is being handled.
    fn is_held(&self, index: usize) -> bool {
        match self {
            Self::Here(_) => false,
            Self::Cluster(remote) => remote.is_held(index),
        }
    }
}

/// Answers events, and writes their records where the answers send them.
pub(super) struct Engine {
    pub(super) source: Source,
    pub(super) tally: Tally,
    pub(super) unjudged: Unjudged,
    /// What the user has asked for of late records, if anything.
    pub(super) late: Option<LateArg>,
    pub(super) troubles: Troubles,
    pub(super) order: OrderOfInput,
    pub(super) answers: Vec<Answer>,
    pub(super) left_out: LeftOut,
}

/// The output of a record that is judged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    FirstSeen,
    Duplicates,
    Uncertain,
}

impl Engine {
    /// Whether each record was read and decided; late ones count as decided where the user has said what becomes of them.
    pub(super) fn is_clean(&self) -> bool {
        let is_recorded = if let Source::Cluster(remote) = &self.source { remote.is_clean() } else { true };
        is_recorded && self.unjudged.total() == 0
    }

    /// Whether a record was judged.
    pub(super) fn has_judged(&self) -> bool {
        let Counts { events, undecided, .. } = self.tally.counts;
        events > undecided + self.tally.late_unjudged
    }

    /// Whether nothing can be said yet about flags and input: nodes are in trouble, or others hold records.
    pub(super) fn is_in_trouble(&self) -> bool {
        let has_waiting = if let Source::Cluster(remote) = &self.source { remote.waiting().0 > 0 } else { false };
        has_waiting || self.unjudged.total() > self.unjudged.total_without_trouble()
    }

    /// Answers every record of `batch` and writes it to its output; `ahead_ms` has the times of the records that come
    /// next.
    pub(super) fn handle(
        &mut self,
        batch: &Batch,
        ahead_ms: &[u64],
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let handled = self.handle_records(batch, ahead_ms, outputs, progress);
        // Where the run ends within the batch, the records before its end are written.
        outputs.end_block(batch.block.bytes()).and(handled)
    }

    fn handle_records(
        &mut self,
        batch: &Batch,
        ahead_ms: &[u64],
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let Batch { block, parsed, .. } = batch;
        let bytes = block.bytes();
        let spans = parsed.spans();
        if parsed.is_rest() {
            return self.continue_rejected(bytes, outputs);
        }
        let unjudged = &self.unjudged;
        self.left_out.count(batch, |line| unjudged.place(Place { file: batch.file, line }), progress);
        let mut rejections = parsed.rejections();
        if let Some(header) = parsed.header().filter(|header| !header.is_repeated) {
            // Comments may stand before it.
            rejections = self.reject_before(rejections, header.span.start, batch, outputs, progress)?;
            for output in outputs.each() {
                output.header(bytes, header.span.range())?;
            }
        }
        self.order.begin(batch);
        for start in (0..parsed.len()).step_by(CHUNK_EVENTS) {
            let chunk = start..parsed.len().min(start + CHUNK_EVENTS);
            self.answer(batch, chunk.clone(), ahead_ms);
            self.watch(batch, start, progress);
            self.look_at_order(batch, start, progress);
            // From rejection to rejection, so that records stay in the order of the input.
            let mut index = start;
            while index < chunk.end {
                rejections = self.reject_before(rejections, spans[index].start, batch, outputs, progress)?;
                let until = match rejections {
                    [] => chunk.end,
                    [next, ..] => index + spans[index..chunk.end].partition_point(|span| span.start < next.span.start),
                };
                self.write(batch, index..until, start, outputs, progress)?;
                index = until;
            }
        }
        self.reject_before(rejections, u32::MAX, batch, outputs, progress)?;
        self.order.end(batch);
        Ok(())
    }

    /// Counts and writes events that are answered; the answers begin with that to event `start`.
    fn write(
        &mut self,
        batch: &Batch,
        events: Range<usize>,
        start: usize,
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let Batch { block, parsed, .. } = batch;
        let bytes = block.bytes();
        let spans = parsed.spans();
        let has_claims = self.source.has_claims();
        for index in events {
            // What another one holds waits until that is decided.
            if has_claims && self.source.is_held(index) {
                continue;
            }
            let event = Event { block, parsed, index };
            let place = index - start;
            match self.answers[place] {
                answer @ (Answer::FirstSeen | Answer::Duplicate) => {
                    let destination = self.count(event, place, answer);
                    outputs.of(destination).record(bytes, spans[index].range())?;
                }
                answer => self.write_unjudged(event, place, answer, batch, outputs, progress)?,
            }
        }
        Ok(())
    }

    /// Counts and writes the `place`th event of its chunk, which is late or has no verdict.
    #[cold]
    fn write_unjudged(
        &mut self,
        event: Event<'_>,
        place: usize,
        answer: Answer,
        batch: &Batch,
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let output = match self.chosen(answer) {
            Some(chosen) => Some(outputs.of(self.late_as_chosen(event, chosen, batch, progress))),
            None => outputs.of_unjudged(self.unjudged(event, place, answer, batch, progress)?),
        };
        let Some(output) = output else { return Ok(()) };
        output.record(batch.block.bytes(), event.parsed.spans()[event.index].range())
    }

    /// Answers events of `batch` that others held, and writes them to their outputs, unless they are held again.
    pub(super) fn handle_again(
        &mut self,
        batch: &Batch,
        events: &[usize],
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let mut handled = Ok(());
        for index in events.iter().copied().filter(|index| !self.source.is_held(*index)).collect::<Vec<_>>() {
            self.answer(batch, index..index + 1, &[]);
            self.watch(batch, index, progress);
            handled = self.write(batch, index..index + 1, index, outputs, progress);
            if handled.is_err() {
                break;
            }
        }
        outputs.end_block(batch.block.bytes()).and(handled)
    }

    /// Counts and writes the rejections that begin before `place` in the block, and returns the others.
    fn reject_before<'a>(
        &mut self,
        rejections: &'a [Rejection],
        place: u32,
        batch: &Batch,
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<&'a [Rejection]> {
        let mut rest = rejections;
        while let [rejection, others @ ..] = rest
            && rejection.span.start < place
        {
            let at = Place { file: batch.file, line: rejection.span.line };
            let fate = self.unjudged.unread(&rejection.reason, at, progress)?;
            let bytes = batch.block.bytes();
            let range = rejection.span.range();
            match rejection.reason {
                // The rows behind it mean nothing without it, in any output.
                RejectReason::Comment { names_fields: true } => {
                    outputs.each().into_iter().try_for_each(|output| output.record(bytes, range.clone()))?;
                }
                RejectReason::Comment { names_fields: false } => outputs.first_seen.record(bytes, range)?,
                _ => outputs.of_unjudged(fate).map_or(Ok(()), |output| output.record(bytes, range))?,
            }
            rest = others;
        }
        Ok(rest)
    }

    /// Writes the next piece of a record that was rejected.
    fn continue_rejected(&mut self, bytes: &[u8], outputs: &mut Outputs) -> anyhow::Result<()> {
        let fate = self.unjudged.last_fate();
        let Some(output) = fate.and_then(|fate| outputs.of_unjudged(fate)) else { return Ok(()) };
        output.continue_record();
        output.record(bytes, 0..bytes.len())
    }

    fn answer(&mut self, batch: &Batch, chunk: Range<usize>, ahead_ms: &[u64]) {
        match &mut self.source {
            Source::Here(here) => here.answer(batch, chunk, ahead_ms, &mut self.answers),
            Source::Cluster(remote) => remote.answer(chunk, &mut self.answers),
        }
    }

    /// Prints a line where the answers of a chunk, which begins at event `start`, begin or end to be undecided.
    fn watch(&mut self, batch: &Batch, start: usize, progress: &Progress) {
        if self.unjudged.ends_the_run() {
            return;
        }
        let source = &self.source;
        let why = |event| match source {
            Source::Here(_) => None,
            Source::Cluster(remote) => remote.why(start + event),
        };
        let Some((event, turn)) = self.troubles.look(&self.answers, Instant::now(), why) else { return };
        let why = why(event);
        if !turn.is_end() {
            self.unjudged.was_named(why.map_or(UnjudgedReason::Full, |why| why.reason.into()));
        }
        let place = Place { file: batch.file, line: batch.parsed.spans()[start + event].line };
        let words = turn.words(&self.unjudged.place(place), why, self.unjudged.passed());
        self.unjudged.say(words, progress);
    }

    /// Prints a line at the first record that is late or doubted as the input is in a wrong order.
    fn look_at_order(&mut self, batch: &Batch, start: usize, progress: &Progress) {
        let (past_lateness, definition) = match &self.source {
            Source::Here(here) => (here.past_lateness.first(), Some(&here.header.definition.group)),
            Source::Cluster(_) => (None, None),
        };
        let lateness_ms = definition.map_or(0, lateness_ms);
        let source = &self.source;
        let is_doubted = |event: usize| match source {
            Source::Here(_) => false,
            Source::Cluster(remote) => remote.is_doubted(start + event),
        };
        let clock_ms = match source {
            Source::Here(here) => here.filter.now_ms(),
            Source::Cluster(_) => None,
        };
        let found = Ordered { answers: &self.answers, is_doubted: &is_doubted, past_lateness, lateness_ms, clock_ms };
        let Some((event, wrong)) = self.order.look(batch, start, &found) else { return };
        let place = self.unjudged.place(Place { file: batch.file, line: batch.parsed.spans()[event].line });
        let words = wrong.words(&place, &self.unjudged.file_name(batch.file), definition);
        self.unjudged.say(words, progress);
        if matches!(self.answers[event - start], Answer::Refused | Answer::Undecided) {
            // No clock is broken: a line about one would mislead.
            self.unjudged.was_named(UnjudgedReason::Future);
        }
    }

    /// Counts an event that is judged, the `place`th of its chunk, and returns its output.
    #[inline(always)]
    fn count(&mut self, event: Event<'_>, place: usize, answer: Answer) -> Destination {
        match &self.source {
            Source::Here(here) if here.is_checked() => self.checked(event, place, answer),
            _ => self.decided(event, answer),
        }
    }

    #[inline]
    pub(super) fn decided(&mut self, event: Event<'_>, answer: Answer) -> Destination {
        self.tally.counts.events += 1;
        if answer == Answer::Duplicate {
            self.tally.duplicate(event);
            Destination::Duplicates
        } else {
            self.tally.first_seen(event);
            Destination::FirstSeen
        }
    }

    /// The output of an event's record, where the exact answer or the exact cache stands beside the filter.
    fn checked(&mut self, event: Event<'_>, place: usize, answer: Answer) -> Destination {
        let digest: Digest = event.parsed.digests()[event.index];
        let destination = self.decided(event, answer);
        let Source::Here(here) = &mut self.source else { return destination };
        here.measure(digest, place, answer);
        if here.is_certain(digest, place, answer) { destination } else { Destination::Uncertain }
    }
}
