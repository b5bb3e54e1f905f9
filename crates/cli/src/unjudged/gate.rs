//! The gate in front of the outputs, which holds all output back until the run has judged at least one record.
//!
//! If the flags do not fit the input, a run cannot judge any record. In that case the run must not write anything,
//! because the next program of a pipeline could take the output for a result.
//!
//! The gate therefore waits for the first record that is judged. The wait ends after 1 MiB of input. If the input is a
//! stream, it also ends after one second. If no record was judged by then, and some records could not be judged, the
//! run ends with an error.
//!
//! The gate opens as soon as the run has judged a record. The output that the gate has held back is then written in its
//! order, and all later output is written without delay.
//!
//! This module does not read any clock. Callers pass the present moment, so tests need not wait.

use std::time::{Duration, Instant};

use firstseen_records::{RecordFormat, Records, hint};

use super::counts::{Unjudged, listed};
use crate::exit::UsageError;
use crate::input::Batch;
use crate::text::numbers::grouped;

/// Maximum amount of input that is held back while no record is judged. The rest of a batch may exceed it.
const HELD_BYTES: usize = 1 << 20;
/// Maximum time that the output of a stream is held back, measured from its first record.
const OUTPUT_DELAY_MAX: Duration = Duration::from_secs(1);
/// Amount of input that is kept in order to describe what the input looks like.
const EXAMINED_BYTES: usize = 64 << 10;

/// What the run must do with its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Continue as before.
    Stay,
    /// Write the bytes that were held back, which are not records but a header or blank lines. Continue to hold back
    /// new output.
    Release,
    /// Write the bytes that were held back, and write everything else at once from now on.
    Open,
}

/// The state of the gate.
pub(crate) struct Gate {
    is_open: bool,
    is_stream: bool,
    format: RecordFormat,
    /// Byte between two fields, if a flag names it.
    separator: Option<u8>,
    /// Moment when the first bytes that are held back arrived.
    since: Option<Instant>,
    held_bytes: usize,
    /// First bytes of the input.
    beginning: Vec<u8>,
    /// The parser's description of a field that no record has.
    lacking: Option<String>,
}

impl Gate {
    /// Returns a closed gate. `is_stream` says that the input may pause.
    pub(crate) fn new(is_stream: bool, format: RecordFormat, separator: Option<u8>) -> Self {
        Self {
            is_open: false,
            is_stream,
            format,
            separator,
            since: None,
            held_bytes: 0,
            beginning: Vec::new(),
            lacking: None,
        }
    }

    /// Returns whether outputs are written at once.
    pub(crate) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Notes that a batch has arrived and that its records were counted.
    pub(crate) fn saw<R: Records>(&mut self, batch: &Batch<R>, now: Instant) {
        if self.is_open {
            return;
        }
        self.since.get_or_insert(now);
        self.held_bytes = self.held_bytes.saturating_add(batch.block.size_bytes());
        if self.beginning.is_empty() {
            let text = batch.block.text();
            self.beginning.extend_from_slice(&text[..text.len().min(EXAMINED_BYTES)]);
        }
        self.lacking.clone_from(&batch.lacking);
    }

    /// Decides what the run must do with its outputs. `unjudged` contains the counts of the records that could not be
    /// judged so far. `is_judged` is true if at least one record was judged, which shows that the flags fit the input.
    /// It is also true if nodes have problems, because the run then cannot conclude that its flags are wrong.
    ///
    /// # Errors
    /// Returns an error if enough of the input was examined and none of its records can be judged.
    pub(crate) fn decide(&mut self, is_judged: bool, unjudged: &Unjudged, now: Instant) -> anyhow::Result<Turn> {
        if self.is_open {
            return Ok(Turn::Stay);
        }
        if is_judged {
            self.is_open = true;
            self.beginning = Vec::new();
            return Ok(Turn::Open);
        }
        if self.held_bytes < HELD_BYTES && self.wait(now) != Some(Duration::ZERO) {
            return Ok(Turn::Stay);
        }
        if unjudged.total() > 0 {
            return Err(self.refusal(unjudged));
        }
        self.since = None;
        self.held_bytes = 0;
        Ok(Turn::Release)
    }

    /// Decides what to do with the outputs at the end of the run. `is_whole` says that the whole input was read.
    ///
    /// # Errors
    /// Returns an error if the whole input was read and none of its records can be judged.
    pub(crate) fn end(&mut self, is_whole: bool, unjudged: &Unjudged) -> anyhow::Result<Turn> {
        if self.is_open {
            return Ok(Turn::Stay);
        }
        if is_whole && unjudged.total() > 0 {
            return Err(self.refusal(unjudged));
        }
        self.is_open = true;
        Ok(Turn::Open)
    }

    /// Returns how long the input may pause until the gate must decide.
    pub(crate) fn wait(&self, now: Instant) -> Option<Duration> {
        let since = self.since.filter(|_| self.is_stream && !self.is_open)?;
        Some(OUTPUT_DELAY_MAX.saturating_sub(now.saturating_duration_since(since)))
    }

    fn refusal(&self, unjudged: &Unjudged) -> anyhow::Error {
        let total = unjudged.total();
        let records = if total == 1 {
            "the first record cannot".to_owned()
        } else {
            format!("none of the first {} records can", grouped(total))
        };
        let mut text = format!(
            "{records} be judged, so nothing was written ({}); {}",
            listed(&unjudged.by_reason()),
            unjudged.first()
        );
        for more in [self.lacking.clone(), hint(&self.beginning, self.format, self.separator)].into_iter().flatten() {
            text += &format!("; {more}");
        }
        UsageError(text).into()
    }
}

#[cfg(test)]
mod tests {
    use firstseen_records::{Block, RejectReason};

    use super::super::UnjudgedArg;
    use super::super::counts::Place;
    use super::*;
    use crate::terminal::progress::Progress;

    fn unjudged(records: u64) -> Unjudged {
        let mut unjudged = Unjudged::new(vec!["log".into()], UnjudgedArg::Pass, false);
        for line in 1..=records {
            let place = Place { file: 0, line };
            unjudged.unread(&RejectReason::NotAnObject, place, &Progress::new(None, true)).expect("it passes");
        }
        unjudged
    }

    fn closed(is_stream: bool, now: Instant) -> Gate {
        let mut gate = Gate::new(is_stream, RecordFormat::Jsonl, None);
        gate.saw(&Batch::<Block>::default(), now);
        gate
    }

    #[test]
    fn the_first_judged_record_opens_it() {
        let now = Instant::now();
        for is_stream in [false, true] {
            let mut gate = closed(is_stream, now);
            assert_eq!(gate.decide(false, &unjudged(3), now).expect("too early"), Turn::Stay);
            assert_eq!(gate.decide(true, &unjudged(3), now).expect("judged"), Turn::Open);
            assert_eq!(gate.decide(false, &unjudged(3), now + OUTPUT_DELAY_MAX).expect("open"), Turn::Stay);
            assert_eq!((gate.is_open(), gate.wait(now)), (true, None));
        }
    }

    #[test]
    fn a_stream_has_a_second_and_a_file_has_not() {
        let now = Instant::now();
        let mut stream = closed(true, now);
        assert_eq!(stream.wait(now + OUTPUT_DELAY_MAX / 4), Some(3 * OUTPUT_DELAY_MAX / 4));
        assert_eq!(stream.decide(false, &unjudged(1), now + OUTPUT_DELAY_MAX / 2).expect("too early"), Turn::Stay);
        let error =
            stream.decide(false, &unjudged(2), now + OUTPUT_DELAY_MAX).expect_err("nothing is judged").to_string();
        assert!(error.contains("none of the first 2 records") && error.contains("log:1: "), "{error}");
        let mut file = closed(false, now);
        assert_eq!(file.wait(now), None);
        assert_eq!(file.decide(false, &unjudged(1), now + 60 * OUTPUT_DELAY_MAX).expect("a slow disk"), Turn::Stay);
        file.end(true, &unjudged(1)).expect_err("all of it was read");
        assert_eq!(file.end(false, &unjudged(1)).expect("a signal"), Turn::Open);
    }

    /// A header that arrives alone is written after one second. The records after it again have one second.
    #[test]
    fn what_is_no_record_is_released() {
        let now = Instant::now();
        let mut gate = closed(true, now);
        assert_eq!(gate.decide(false, &unjudged(0), now + OUTPUT_DELAY_MAX).expect("no record"), Turn::Release);
        assert_eq!(gate.wait(now + OUTPUT_DELAY_MAX), None, "nothing is held back");
        gate.saw(&Batch::<Block>::default(), now + 5 * OUTPUT_DELAY_MAX);
        assert_eq!(gate.decide(false, &unjudged(1), now + 5 * OUTPUT_DELAY_MAX).expect("too early"), Turn::Stay);
        gate.decide(false, &unjudged(1), now + 6 * OUTPUT_DELAY_MAX).expect_err("nothing is judged");
        assert_eq!(closed(true, now).end(true, &unjudged(0)).expect("no record"), Turn::Open);
    }
}
