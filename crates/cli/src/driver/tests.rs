//! Tests of the driver with records that are not text, to show that the driver does not depend on text. The input
//! consists of messages, the output keeps the boundaries between messages, and the decider remembers every event
//! exactly.

use std::collections::HashSet;

use firstseen_filter::{Digest, FilterSecret};
use firstseen_records::{ParsedBlock, RecordFormat, RecordSpan, Records, RejectReason};

use super::*;
use crate::input::{Input, Times};
use crate::unjudged::UnjudgedArg;
use crate::unjudged::counts::Unjudged;

/// The messages of a batch, as an example of records that are not text. The span of a record is a range of bytes for
/// text, but a range of message indexes here. The payload of a message is its key, and a message with an empty payload
/// has no key.
#[derive(Default)]
struct Messages(Vec<String>);

impl Records for Messages {
    fn key_parts(&self, parsed: &ParsedBlock, index: usize) -> Vec<String> {
        vec![self.0[parsed.spans()[index].start as usize].clone()]
    }

    fn digests_under(&self, _: &ParsedBlock, secret: &FilterSecret) -> Vec<Digest> {
        self.0.iter().filter(|key| !key.is_empty()).map(|key| secret.digest(key.as_bytes())).collect()
    }

    fn size_bytes(&self) -> usize {
        self.0.iter().map(String::len).sum()
    }
}

/// An input that returns `at_once` messages per block.
struct Topic {
    messages: Vec<String>,
    at_once: usize,
    secret: FilterSecret,
}

impl Input for Topic {
    type Records = Messages;

    fn is_stream(&self) -> bool {
        true
    }

    fn read(&mut self, batch: &mut Batch<Messages>) -> anyhow::Result<bool> {
        let Batch { block, parsed, .. } = batch;
        parsed.clear();
        block.0 = self.messages.drain(..self.messages.len().min(self.at_once)).collect();
        for (place, key) in (0..).zip(&block.0) {
            let span = RecordSpan { start: place, end: place + 1, line: u64::from(place) + 1 };
            if key.is_empty() {
                parsed.reject(span, RejectReason::NoKey { field: "key".into() });
            } else {
                parsed.push(span, self.secret.digest(key.as_bytes()), None);
            }
        }
        Ok(!block.0.is_empty())
    }
}

/// Messages that were produced: the messages that wait until the gate opens, and the messages that are visible to
/// readers.
#[derive(Default)]
struct Produced {
    is_open: bool,
    held: Vec<String>,
    visible: Vec<String>,
}

impl Output for Produced {
    type Records = Messages;

    fn is_kept(&self) -> bool {
        true
    }

    fn begin(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn open(&mut self) -> anyhow::Result<()> {
        self.is_open = true;
        self.release()
    }

    fn release(&mut self) -> anyhow::Result<()> {
        self.visible.append(&mut self.held);
        Ok(())
    }

    fn discard(&mut self) {
        self.held.clear();
    }

    fn record(&mut self, records: &Messages, record: RecordSpan) -> anyhow::Result<()> {
        assert_eq!(record.range().len(), 1, "a record comes alone");
        let target = if self.is_open { &mut self.visible } else { &mut self.held };
        target.extend(records.0[record.range()].iter().cloned());
        Ok(())
    }

    fn end_block(&mut self, _: &Messages) -> anyhow::Result<()> {
        Ok(())
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn sync(&mut self) -> anyhow::Result<()> {
        Ok(())
    }
}

/// Decides whether an event is new.
#[derive(Default)]
struct Seen(HashSet<Digest>);

impl Decider<Messages> for Seen {
    type Decision = bool;

    fn step_ms(&self) -> Option<u64> {
        None
    }

    fn submit(&mut self, batch: Box<Batch<Messages>>, _: &[u64]) -> anyhow::Result<Option<Box<Batch<Messages>>>> {
        Ok(Some(batch))
    }

    fn decide(&mut self, batch: &Batch<Messages>, events: Range<usize>, decisions: &mut Vec<bool>) {
        decisions.clear();
        decisions.extend(batch.parsed.digests()[events].iter().map(|digest| self.0.insert(*digest)));
    }
}

/// Handler that passes new messages on.
#[derive(Default)]
struct Once {
    judged: usize,
}

impl Handler<Produced, Seen> for Once {
    fn look(&mut self, _: &Chunk<'_, Messages, bool>, _: &Seen, _: &mut Outputs<Produced>) {}

    fn write(
        &mut self,
        chunk: &Chunk<'_, Messages, bool>,
        events: Range<usize>,
        _: &mut Seen,
        outputs: &mut Outputs<Produced>,
    ) -> anyhow::Result<()> {
        for index in events {
            self.judged += 1;
            let [duplicates, _] = &mut outputs.others;
            let output = if chunk.decisions[index - chunk.start] { &mut outputs.passed } else { duplicates };
            output.record(&chunk.batch.block, chunk.batch.parsed.spans()[index])?;
        }
        Ok(())
    }

    fn has_judged(&self) -> bool {
        self.judged > 0
    }

    fn summary(&self) -> String {
        String::new()
    }
}

/// Runs the driver over `messages` in batches of `at_once` messages. Returns the messages that were written as
/// first-seen, the messages that were written as duplicates, and whether the run succeeded.
fn passed(messages: &[&str], at_once: usize) -> (Vec<String>, Vec<String>, bool) {
    let messages = messages.iter().map(ToString::to_string).collect();
    let queue = Queue::start(Topic { messages, at_once, secret: FilterSecret::from_seed(1) }, Times::Record);
    let outputs = Outputs {
        passed: Produced::default(),
        others: Default::default(),
        rejected: Produced::default(),
        unjudged: Unjudged::new(vec!["topic".into()], UnjudgedArg::Pass, false),
        progress: Progress::new(None, true),
    };
    let gate = Gate::new(queue.is_stream(), RecordFormat::Lines, None);
    let saving = Saving::new(None, None).expect("nothing is saved");
    let mut driver = Driver::new(Seen::default(), Once::default(), outputs, gate, saving, Stop::default());
    let ended = driver.run(&queue);
    driver.finish(&ended).expect("nothing is saved");
    let is_ok = driver.exit_code(ended, Ok(()), false).is_ok();
    let Outputs { passed, others: [duplicates, _], .. } = driver.outputs;
    (passed.visible, duplicates.visible, is_ok)
}

#[test]
fn messages_pass_with_their_boundaries_and_in_their_order() {
    let messages = ["a", "b", "a", "", "c\nd", "b", "c\nd", "e"];
    for at_once in 1..=messages.len() {
        let (passed, duplicates, is_ok) = passed(&messages, at_once);
        assert_eq!(passed, ["a", "b", "", "c\nd", "e"], "{at_once} at once: one without a key stays in its place");
        assert_eq!(duplicates, ["a", "b", "c\nd"], "{at_once} at once");
        assert!(is_ok);
    }
}

#[test]
fn nothing_is_visible_where_no_message_can_be_judged() {
    let (passed, duplicates, is_ok) = passed(&["", "", ""], 2);
    assert!(passed.is_empty() && duplicates.is_empty() && !is_ok);
}
