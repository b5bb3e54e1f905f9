//! A batch through the filter: its answers, their counts, and the output of each record.
//!
//! Promises: answers come in the order of the records; every record goes to one output. Must not know: files, threads.

use std::ops::Range;
use std::time::Instant;

use firstseen_filter::Digest;
use firstseen_records::Rejection;
use firstseen_routing::Answer;

use super::LateArg;
use super::here::Here;
use super::remote::Remote;
use super::tally::{Event, Tally};
use super::troubles::Troubles;
use crate::input::Batch;
use crate::output::Output;
use crate::output::rejects::Rejects;
use crate::terminal::progress::Progress;

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
            Destination::Rejected => &mut self.rejected,
        }
    }

    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        self.each().into_iter().try_for_each(Output::begin)
    }

    /// Checks, before any record of `batch` is answered, that output files of earlier runs begin with its header.
    pub(super) fn check_header(&mut self, batch: &Batch) -> anyhow::Result<()> {
        let Some(header) = batch.new_header() else { return Ok(()) };
        self.each().into_iter().try_for_each(|output| output.check_header(header))
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
    pub(super) rejects: Rejects,
    pub(super) late: LateArg,
    pub(super) troubles: Troubles,
    pub(super) answers: Vec<Answer>,
    /// Records at the end of a file whose times nothing confirms or contradicts.
    pub(super) unclear: u64,
}

/// The output of one record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Destination {
    FirstSeen,
    Duplicates,
    Uncertain,
    Rejected,
}

impl Engine {
    /// Whether there was no record yet, not even a rejected one.
    pub(super) fn has_seen_nothing(&self) -> bool {
        self.tally.counts.events + self.rejects.count() == 0
    }

    /// Whether each record was read and decided; late ones count as decided.
    pub(super) fn is_clean(&self) -> bool {
        let is_recorded = if let Source::Cluster(remote) = &self.source { remote.is_clean() } else { true };
        is_recorded && self.rejects.count() + self.troubles.total() + self.unclear == 0
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
        let Batch { block, parsed, file, .. } = batch;
        let bytes = block.bytes();
        if let Some(header) = parsed.header().filter(|header| !header.is_repeated) {
            for output in outputs.each() {
                output.header(bytes, header.span.range())?;
            }
        }
        let mut rejections = parsed.rejections().iter().peekable();
        for start in (0..parsed.len()).step_by(CHUNK_EVENTS) {
            let chunk = start..parsed.len().min(start + CHUNK_EVENTS);
            self.answer(batch, chunk.clone(), ahead_ms);
            self.watch(batch, start, progress);
            let has_claims = self.source.has_claims();
            for index in chunk {
                // What another one holds waits until that is decided.
                if has_claims && self.source.is_held(index) {
                    continue;
                }
                let event = Event { block, parsed, index };
                let destination = match self.answers[index - start] {
                    Answer::Refused => {
                        // Records that the parser rejects and those that the filter refuses go to one output, in the
                        // order of the input.
                        let place = parsed.spans()[index].range().start;
                        while let Some(earlier) = rejections.next_if(|rejection| rejection.span.range().start < place) {
                            self.reject(earlier, batch, outputs, progress)?;
                        }
                        let is_last = batch.is_before_older && index + 1 == parsed.len();
                        if is_last { self.unclear(event, *file, progress) } else { self.refuse(event, *file, progress) }
                    }
                    answer => self.count(event, index - start, answer),
                };
                outputs.of(destination).record(bytes, parsed.spans()[index].range())?;
            }
        }
        for rejection in rejections {
            self.reject(rejection, batch, outputs, progress)?;
        }
        outputs.each().into_iter().try_for_each(|output| output.end_block(bytes))
    }

    /// Answers events of `batch` that others held, and writes them to their outputs, unless they are held again.
    pub(super) fn handle_again(
        &mut self,
        batch: &Batch,
        events: &[usize],
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let Batch { block, parsed, file, .. } = batch;
        let bytes = block.bytes();
        for index in events.iter().copied().filter(|index| !self.source.is_held(*index)).collect::<Vec<_>>() {
            self.answer(batch, index..index + 1, &[]);
            self.watch(batch, index, progress);
            let event = Event { block, parsed, index };
            let destination = match self.answers[0] {
                Answer::Refused => self.refuse(event, *file, progress),
                answer => self.count(event, 0, answer),
            };
            outputs.of(destination).record(bytes, parsed.spans()[index].range())?;
        }
        outputs.each().into_iter().try_for_each(|output| output.end_block(bytes))
    }

    fn reject(
        &mut self,
        rejection: &Rejection,
        batch: &Batch,
        outputs: &mut Outputs,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        self.rejects.add(batch.file, rejection.span.line, &rejection.reason, progress);
        outputs.rejected.record(batch.block.bytes(), rejection.span.range())
    }

    /// The last record of a file may be refused for its time; where the next file begins earlier, it cannot contradict
    /// that time, and the record is passed on.
    fn unclear(&mut self, event: Event<'_>, file: usize, progress: &Progress) -> Destination {
        progress.note(&format!(
            "firstseen: {}: undecided, and passed on: its time is more than --future-max ahead of its file, and the \
             next file is older: name the oldest file first",
            self.rejects.place(file, event.parsed.spans()[event.index].line)
        ));
        self.unclear += 1;
        self.decided(event, Answer::Undecided)
    }

    fn refuse(&mut self, event: Event<'_>, file: usize, progress: &Progress) -> Destination {
        let line = event.parsed.spans()[event.index].line;
        let reason = "its time is more than --future-max ahead of the others, which do not bear it out";
        self.rejects.add(file, line, reason, progress);
        Destination::Rejected
    }

    fn answer(&mut self, batch: &Batch, chunk: Range<usize>, ahead_ms: &[u64]) {
        match &mut self.source {
            Source::Here(here) => here.answer(batch, chunk, ahead_ms, &mut self.answers),
            Source::Cluster(remote) => remote.answer(chunk, &mut self.answers),
        }
    }

    /// Prints a line where the answers of a chunk, which begins at event `start`, begin or end to be undecided.
    fn watch(&mut self, batch: &Batch, start: usize, progress: &Progress) {
        let source = &self.source;
        let why = |event| match source {
            Source::Here(_) => None,
            Source::Cluster(remote) => remote.why(start + event),
        };
        let Some((event, turn)) = self.troubles.look(&self.answers, Instant::now(), why) else { return };
        let line = batch.parsed.spans()[start + event].line;
        progress.note(&turn.words(&self.rejects.place(batch.file, line), why(event)));
    }

    /// Counts one event that was not refused, the `place`th of its chunk, and returns its output.
    // It has two callers, and is called for each event by one of them.
    #[inline(always)]
    fn count(&mut self, event: Event<'_>, place: usize, answer: Answer) -> Destination {
        match answer {
            Answer::Late => {
                self.tally.counts.late += 1;
                self.decided(
                    event,
                    match self.late {
                        LateArg::FirstSeen => Answer::FirstSeen,
                        LateArg::Duplicate => Answer::Duplicate,
                        LateArg::Undecided => Answer::Undecided,
                    },
                )
            }
            answer => match &self.source {
                Source::Here(here) if here.is_checked() => self.checked(event, place, answer),
                _ => self.decided(event, answer),
            },
        }
    }

    #[inline]
    fn decided(&mut self, event: Event<'_>, answer: Answer) -> Destination {
        self.tally.counts.events += 1;
        match answer {
            Answer::FirstSeen => {
                self.tally.first_seen(event);
                Destination::FirstSeen
            }
            Answer::Duplicate => {
                self.tally.duplicate(event);
                Destination::Duplicates
            }
            _ => {
                self.tally.counts.undecided += 1;
                Destination::FirstSeen
            }
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
