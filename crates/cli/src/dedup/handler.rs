//! Handles the verdicts of `dedup`: it counts them, and writes each record to the output for its verdict. Each record
//! goes to exactly one output, or to no output if the flags drop it. Messages on stderr tell the user
//! when verdicts become undecided, and when the records are in the wrong order.

use std::ops::Range;
use std::time::Instant;

use firstseen_filter::Digest;
use firstseen_records::Records;
use firstseen_routing::Answer;

use super::LateArg;
use super::lateness::lateness_ms;
use super::order::{OrderOfInput, Ordered};
use super::outages::Outages;
use super::tally::{Event, Tally};
use super::verdicts::Verdicts;
use crate::driver::{self, Handler, Outputs};
use crate::input::Batch;
use crate::output::Output;
use crate::report::Counts;
use crate::unjudged::UnjudgedReason;
use crate::unjudged::counts::Place;

/// Verdicts on consecutive events.
pub(super) type Chunk<'a, R> = driver::Chunk<'a, R, Answer>;

/// Counts verdicts, and writes records where the verdicts send them.
pub(super) struct Dedup {
    pub(super) tally: Tally,
    /// What the user chose for late records, if anything.
    pub(super) late: Option<LateArg>,
    pub(super) troubles: Outages,
    pub(super) order: OrderOfInput,
}

/// The output of a record that was judged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Destination {
    FirstSeen,
    Duplicates,
    Uncertain,
}

impl<O: Output, D: Verdicts<O::Records>> Handler<O, D> for Dedup {
    fn begin(&mut self, batch: &Batch<O::Records>) {
        self.order.begin(batch);
    }

    fn look(&mut self, chunk: &Chunk<'_, O::Records>, decider: &D, outputs: &mut Outputs<O>) {
        self.watch(chunk, decider, outputs);
        self.order.note_late(chunk.batch, chunk.start, chunk.decisions, &decider.group().window);
        if !chunk.is_retry {
            self.check_order(chunk, decider, outputs);
        }
    }

    fn write(
        &mut self,
        chunk: &Chunk<'_, O::Records>,
        events: Range<usize>,
        decider: &mut D,
        outputs: &mut Outputs<O>,
    ) -> anyhow::Result<()> {
        let Batch { block, parsed, .. } = chunk.batch;
        let spans = parsed.spans();
        for index in events {
            // A record whose event another consumer holds waits until that consumer has finished.
            if decider.is_held(index) {
                continue;
            }
            let event = Event { block, parsed, index };
            match chunk.decisions[index - chunk.start] {
                answer @ (Answer::FirstSeen | Answer::Duplicate) => {
                    let destination = self.count(&event, index - chunk.start, answer, decider);
                    output(outputs, destination).record(block, spans[index])?;
                }
                answer => self.write_unjudged(chunk, &event, answer, decider, outputs)?,
            }
        }
        Ok(())
    }

    fn end(&mut self, batch: &Batch<O::Records>) {
        self.order.end(batch);
    }

    fn has_judged(&self) -> bool {
        let Counts { events, undecided, .. } = self.tally.counts;
        events > undecided + self.tally.late_unjudged
    }

    fn summary(&self) -> String {
        format!("{} events, {} duplicates", self.tally.counts.events, self.tally.counts.duplicates)
    }
}

impl Dedup {
    /// Counts and writes a record that is late or has no verdict.
    #[cold]
    fn write_unjudged<O: Output>(
        &mut self,
        chunk: &Chunk<'_, O::Records>,
        event: &Event<'_, O::Records>,
        answer: Answer,
        decider: &mut impl Verdicts<O::Records>,
        outputs: &mut Outputs<O>,
    ) -> anyhow::Result<()> {
        let target = match self.chosen(answer) {
            Some(chosen) => {
                let destination = self.answer_late(chunk, event, chosen, decider, outputs);
                Some(output(outputs, destination))
            }
            None => {
                let fate = self.unjudged(chunk, event, answer, decider, outputs)?;
                outputs.of_unjudged(fate)
            }
        };
        target.map_or(Ok(()), |output| output.record(event.block, event.parsed.spans()[event.index]))
    }

    /// Prints a message when answers become undecided, or become decided again.
    fn watch<O: Output>(
        &mut self,
        chunk: &Chunk<'_, O::Records>,
        decider: &impl Verdicts<O::Records>,
        outputs: &mut Outputs<O>,
    ) {
        if outputs.unjudged.ends_the_run() {
            return;
        }
        let turn = self.troubles.look(chunk.decisions, Instant::now(), |place| decider.why(chunk.start + place));
        let Some((place, turn)) = turn else { return };
        let event = chunk.start + place;
        let why = decider.why(event);
        if !turn.is_end() {
            outputs.unjudged.was_named(why.map_or(UnjudgedReason::Full, |why| why.reason.into()));
        }
        let at = Place { file: chunk.batch.file, line: chunk.batch.parsed.spans()[event].line };
        let message = turn.message(&outputs.unjudged.place(at), why, outputs.unjudged.passed());
        outputs.unjudged.print_or_hold(message, &outputs.progress);
    }

    /// Prints a message at the first record that is late or has an implausible time because the input is in the wrong
    /// order.
    fn check_order<O: Output>(
        &mut self,
        chunk: &Chunk<'_, O::Records>,
        decider: &impl Verdicts<O::Records>,
        outputs: &mut Outputs<O>,
    ) {
        let found = Ordered {
            answers: chunk.decisions,
            is_implausible: |place: usize| decider.is_implausible(chunk.start + place),
            past_lateness: decider.past_lateness(),
            lateness_ms: lateness_ms(decider.group()),
            window: &decider.group().window,
            clock_ms: decider.clock_ms(),
        };
        let Some((event, wrong)) = self.order.look(chunk.batch, chunk.start, &found) else { return };
        let Batch { parsed, file, .. } = chunk.batch;
        let at = outputs.unjudged.place(Place { file: *file, line: parsed.spans()[event].line });
        let message = wrong.message(&at, &outputs.unjudged.file_name(*file), decider.definition());
        outputs.unjudged.print_or_hold(message, &outputs.progress);
        if matches!(chunk.decisions[event - chunk.start], Answer::Refused | Answer::Undecided) {
            // No clock is wrong in this case, so a message about a clock would mislead.
            outputs.unjudged.was_named(UnjudgedReason::Future);
        }
    }

    /// Counts the judged event number `place` of its chunk, and returns its output.
    #[inline(always)]
    fn count<R: Records>(
        &mut self,
        event: &Event<'_, R>,
        place: usize,
        answer: Answer,
        decider: &mut impl Verdicts<R>,
    ) -> Destination {
        let destination = self.decided(event, answer);
        if !decider.is_checked() {
            return destination;
        }
        let digest: Digest = event.parsed.digests()[event.index];
        if decider.check(digest, place, answer) { destination } else { Destination::Uncertain }
    }

    #[inline]
    pub(super) fn decided<R: Records>(&mut self, event: &Event<'_, R>, answer: Answer) -> Destination {
        self.tally.counts.events += 1;
        if answer == Answer::Duplicate {
            self.tally.duplicate(event);
            Destination::Duplicates
        } else {
            self.tally.first_seen(event);
            Destination::FirstSeen
        }
    }
}

/// Returns the output for records with this destination. A run may have separate outputs for duplicates and for
/// uncertain duplicates, which are duplicates that could not be confirmed. Without `--uncertain`, uncertain duplicates
/// go to the output for duplicates.
fn output<O: Output>(outputs: &mut Outputs<O>, destination: Destination) -> &mut O {
    let [duplicates, uncertain] = &mut outputs.others;
    match destination {
        Destination::FirstSeen => &mut outputs.passed,
        Destination::Uncertain if uncertain.is_kept() => uncertain,
        Destination::Duplicates | Destination::Uncertain => duplicates,
    }
}
