//! A batch through the filter: answers, what is counted of them, and where each record goes.
//!
//! Promises: answers come in the order of the records; every record goes to one output. Must not know: files, threads.

use std::ops::Range;

use firstseen_filter::{Digest, ExactWindow, Stamp, Verdict, WindowRule};
use firstseen_records::{ParsedBlock, Rejection};
use firstseen_routing::{Answer, SlicedFilter};

use super::LateArg;
use super::tally::{Event, Tally};
use crate::confirm::Confirm;
use crate::input::Batch;
use crate::output::Output;
use crate::progress::Progress;
use crate::rejects::Rejects;

/// Events that are answered before they are counted and written: their answers stay in the first cache.
const CHUNK_EVENTS: usize = 4096;

/// Where records go.
pub(super) struct Outputs {
    pub(super) first_seen: Output,
    pub(super) duplicates: Output,
    /// Only where `--uncertain` asks for it; otherwise these go to the duplicates.
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

    pub(super) fn flush(&mut self) -> anyhow::Result<()> {
        self.each().into_iter().try_for_each(Output::flush)
    }
}

/// The filter with everything that looks over its shoulder.
pub(super) struct Engine {
    pub(super) filter: SlicedFilter,
    pub(super) rule: WindowRule,
    pub(super) tally: Tally,
    pub(super) confirm: Option<Confirm>,
    pub(super) exact: Option<ExactWindow>,
    pub(super) rejects: Rejects,
    pub(super) late: LateArg,
    pub(super) lookup: bool,
    pub(super) answers: Vec<Answer>,
    pub(super) times_ms: Vec<u64>,
}

/// Where one record goes.
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

    /// Answers every record of `batch` and writes it where it belongs.
    pub(super) fn handle(&mut self, batch: &Batch, outputs: &mut Outputs, progress: &Progress) -> anyhow::Result<()> {
        let Batch { block, parsed, file, .. } = batch;
        let bytes = block.bytes();
        if let Some(header) = parsed.header().filter(|header| !header.is_repeated) {
            for output in outputs.each() {
                output.record(bytes, header.span.range())?;
            }
        }
        let mut rejections = parsed.rejections().iter().peekable();
        for start in (0..parsed.len()).step_by(CHUNK_EVENTS) {
            let chunk = start..parsed.len().min(start + CHUNK_EVENTS);
            self.answer(parsed, chunk.clone());
            for index in chunk {
                let event = Event { block, parsed, index };
                if self.answers[index - start] == Answer::Refused {
                    // What is rejected by the filter and by the parser goes to one output, in the order of the input.
                    let place = parsed.spans()[index].range().start;
                    while let Some(earlier) = rejections.next_if(|rejection| rejection.span.range().start < place) {
                        self.reject(earlier, batch, outputs, progress)?;
                    }
                }
                let destination = self.count(event, index - start, *file, progress);
                outputs.of(destination).record(bytes, parsed.spans()[index].range())?;
            }
        }
        for rejection in rejections {
            self.reject(rejection, batch, outputs, progress)?;
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
        self.rejects.tell(batch.file, rejection.span.line, &rejection.reason, progress);
        outputs.rejected.record(batch.block.bytes(), rejection.span.range())
    }

    fn answer(&mut self, parsed: &ParsedBlock, chunk: Range<usize>) {
        self.times_ms.clear();
        if !parsed.times_ms().is_empty() {
            // The parser rejects times before 1970.
            self.times_ms.extend(parsed.times_ms()[chunk.clone()].iter().map(|time_ms| time_ms.cast_unsigned()));
        }
        self.answers.clear();
        self.answers.resize(chunk.len(), Answer::Undecided);
        let (digests, times_ms, answers) = (&parsed.digests()[chunk], &self.times_ms, &mut self.answers);
        if self.lookup {
            self.filter.lookup_batch(digests, times_ms, answers);
        } else {
            self.filter.observe_batch(digests, times_ms, answers);
        }
    }

    /// Counts one answered event, the `place`th of its chunk, and says where it goes.
    #[inline]
    fn count(&mut self, event: Event<'_>, place: usize, file: usize, progress: &Progress) -> Destination {
        let answer = self.answers[place];
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
            Answer::Refused => {
                let line = event.parsed.spans()[event.index].line;
                let reason = "its time is further ahead of the others than --future-max allows";
                self.rejects.tell(file, line, reason, progress);
                Destination::Rejected
            }
            answer => {
                if self.confirm.is_some() || self.exact.is_some() {
                    return self.checked(event, place, answer);
                }
                self.decided(event, answer)
            }
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

    /// The same, with the exact answer or the exact cache beside.
    fn checked(&mut self, event: Event<'_>, place: usize, answer: Answer) -> Destination {
        let digest: Digest = event.parsed.digests()[event.index];
        let stamp: Stamp = self.filter.stamps()[place];
        if let Some(exact) = &mut self.exact {
            exact.observe(
                digest,
                stamp,
                match answer {
                    Answer::FirstSeen => Verdict::FirstSeen,
                    Answer::Duplicate => Verdict::Duplicate,
                    _ => Verdict::Undecided,
                },
            );
        }
        let destination = self.decided(event, answer);
        let Some(confirm) = &mut self.confirm else { return destination };
        if answer == Answer::FirstSeen && !self.lookup {
            confirm.delivered(digest, self.rule.expiry(stamp.unit));
        }
        match destination {
            Destination::Duplicates if !confirm.is_certain(digest, stamp.judged) => Destination::Uncertain,
            destination => destination,
        }
    }
}
