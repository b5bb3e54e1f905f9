//! Decides which bytes of a piece of records are sent back: the records that are first-seen, unchanged.
//!
//! The reply contains the records in the order of the input and does not change a byte of them. A record is called a
//! duplicate only if an equal record occurred within the window.

use std::collections::BTreeMap;

use firstseen_client::Verdict;
use firstseen_filter::Window;
use firstseen_records::{RejectKind, RejectReason, Rejection};
use firstseen_routing::Reason;
use serde::Serialize;

use super::query::Unjudged;
use super::reading::RecordBatch;

/// Report on a `dedup` request, which is sent as a trailer.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Report {
    /// Number of records that could be parsed.
    pub(crate) records: u64,
    pub(crate) first_seen: u64,
    pub(crate) duplicates: u64,
    pub(crate) undecided: u64,
    /// Number of records that could not be parsed.
    pub(crate) rejected: u64,
    /// Reasons why records are undecided or rejected, with the number of records.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) reasons: BTreeMap<String, u64>,
    /// Name of a field in the options that no record has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) lacking: Option<String>,
}

impl Report {
    fn reason(&mut self, name: &str) {
        match self.reasons.get_mut(name) {
            Some(count) => *count += 1,
            None => _ = self.reasons.insert(name.to_owned(), 1),
        }
    }
}

/// State that decides which bytes are sent back.
pub(crate) struct Selection {
    unjudged: Unjudged,
    pub(crate) report: Report,
    beyond: BeyondWindow,
    /// Whether the last rejected record was sent back. The record may continue in the next piece, which must then be
    /// sent back too.
    passed_rejected: bool,
}

impl Selection {
    pub(crate) fn new(unjudged: Unjudged, window: &Window) -> Self {
        Self { unjudged, report: Report::default(), beyond: BeyondWindow::new(window), passed_rejected: false }
    }

    /// Appends the bytes of a piece that are sent back to `kept`. `times_ms` has the times of the events, if records
    /// carry times.
    pub(crate) fn select(
        &mut self,
        batch: &RecordBatch,
        verdicts: &mut [Verdict],
        times_ms: &[u64],
        kept: &mut Vec<u8>,
    ) {
        let RecordBatch { block, parsed } = batch;
        let bytes = block.bytes();
        if parsed.is_rest() {
            kept.extend_from_slice(if self.passed_rejected { bytes } else { &[] });
            return;
        }
        self.beyond.call_late(times_ms, verdicts);
        let mut rejections = parsed.rejections();
        if let Some(header) = parsed.header().filter(|header| !header.is_repeated) {
            rejections = self.reject_before(rejections, header.span.start, bytes, kept);
            kept.extend_from_slice(bytes.get(header.span.range()).unwrap_or_default());
        }
        for (span, verdict) in parsed.spans().iter().zip(verdicts) {
            rejections = self.reject_before(rejections, span.start, bytes, kept);
            if self.counts_as_kept(*verdict) {
                kept.extend_from_slice(bytes.get(span.range()).unwrap_or_default());
            }
        }
        self.reject_before(rejections, u32::MAX, bytes, kept);
    }

    /// Counts a verdict. Returns whether its record is sent back.
    fn counts_as_kept(&mut self, verdict: Verdict) -> bool {
        self.report.records += 1;
        match verdict {
            Verdict::FirstSeen => {
                self.report.first_seen += 1;
                true
            }
            Verdict::Duplicate => {
                self.report.duplicates += 1;
                false
            }
            Verdict::Undecided(reason) => {
                self.report.undecided += 1;
                let name = serde_json::to_value(reason).ok();
                self.report.reason(name.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default());
                self.unjudged == Unjudged::Pass
            }
        }
    }

    /// Processes the rejected records before a position. Returns the remaining rejected records.
    fn reject_before<'a>(
        &mut self,
        rejections: &'a [Rejection],
        place: u32,
        bytes: &[u8],
        kept: &mut Vec<u8>,
    ) -> &'a [Rejection] {
        let mut rest = rejections;
        while let [rejection, others @ ..] = rest
            && rejection.span.start < place
        {
            let is_comment = matches!(rejection.reason, RejectReason::Comment { .. });
            let kind = rejection.reason.kind();
            if kind != RejectKind::Blank {
                self.report.rejected += 1;
                self.report.reason(kind.name());
            }
            // Rows after a comment may need the comment to be understood, so comments are always sent back.
            self.passed_rejected = is_comment || self.unjudged == Unjudged::Pass;
            if self.passed_rejected {
                kept.extend_from_slice(bytes.get(rejection.span.range()).unwrap_or_default());
            }
            rest = others;
        }
        rest
    }
}

/// Clock of a stream: the greatest time of all records that the cluster has decided so far.
///
/// The clock shows which records are older than the window. A duplicate verdict for such an old record is not reliable.
/// The filter may know an equal record, but that record may be newer than the old one by more than the window, and then
/// the two are not duplicates. The old record is therefore reported as late.
struct BeyondWindow {
    window_ms: Option<u64>,
    clock_ms: u64,
}

impl BeyondWindow {
    fn new(window: &Window) -> Self {
        let window_ms = match window {
            Window::Duration(window_ms) => Some(*window_ms),
            _ => None,
        };
        Self { window_ms, clock_ms: 0 }
    }

    /// Changes the verdict of duplicates that are older than the window to late.
    fn call_late(&mut self, times_ms: &[u64], verdicts: &mut [Verdict]) {
        let Some(window_ms) = self.window_ms else { return };
        for (time_ms, verdict) in times_ms.iter().zip(verdicts) {
            let is_old = time_ms.saturating_add(window_ms) < self.clock_ms;
            match verdict {
                Verdict::Duplicate if is_old => *verdict = Verdict::Undecided(Reason::Late),
                Verdict::FirstSeen | Verdict::Duplicate => self.clock_ms = self.clock_ms.max(*time_ms),
                Verdict::Undecided(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::FilterSecret;
    use firstseen_records::{BlockOptions, BlockReader, ParserConfig, RecordFormat, RecordParser};

    use super::*;

    const NEW: Verdict = Verdict::FirstSeen;
    const SEEN: Verdict = Verdict::Duplicate;

    fn batch(format: RecordFormat, key: &[&str], input: &str) -> RecordBatch {
        let config =
            ParserConfig { key: key.iter().map(|key| (*key).to_owned()).collect(), ..ParserConfig::new(format) };
        let mut parser = RecordParser::new(config, FilterSecret::from_seed(1)).unwrap();
        let mut reader = BlockReader::new(input.as_bytes(), BlockOptions::for_format(format));
        let mut batch = RecordBatch::default();
        assert!(reader.read_block(&mut batch.block).unwrap());
        parser.parse(&batch.block, &mut batch.parsed).unwrap();
        batch
    }

    fn passed(unjudged: Unjudged, batch: &RecordBatch, verdicts: &[Verdict]) -> (String, Report) {
        let mut passing = Selection::new(unjudged, &Window::Unbounded);
        let mut kept = Vec::new();
        passing.select(batch, &mut verdicts.to_vec(), &[], &mut kept);
        (String::from_utf8(kept).unwrap(), passing.report)
    }

    #[test]
    fn records_that_are_new_are_passed_on_unchanged() {
        let batch = batch(RecordFormat::Csv, &["user"], "user,ad\r\nann,1\r\n bob,2\r\n\"ann\",3\r\n");
        let (kept, report) = passed(Unjudged::Pass, &batch, &[NEW, NEW, SEEN]);
        assert_eq!(kept, "user,ad\r\nann,1\r\n bob,2\r\n");
        assert_eq!((report.records, report.first_seen, report.duplicates), (3, 2, 1));
    }

    #[test]
    fn records_that_cannot_be_judged_are_passed_on_or_dropped_in_their_place() {
        let input = "{\"user\":1}\nno json\n{\"ad\":2}\n{\"user\":3}\n";
        let batch = batch(RecordFormat::Jsonl, &["user"], input);
        let verdicts = [NEW, Verdict::Undecided(Reason::Full)];
        let (kept, report) = passed(Unjudged::Pass, &batch, &verdicts);
        assert_eq!(kept, input);
        assert_eq!((report.records, report.rejected, report.undecided), (2, 2, 1));
        assert_eq!(report.reasons.get("full"), Some(&1));
        assert_eq!(report.reasons.values().sum::<u64>(), 3);
        let (kept, _) = passed(Unjudged::Drop, &batch, &verdicts);
        assert_eq!(kept, "{\"user\":1}\n");
    }

    #[test]
    fn a_duplicate_that_is_older_than_the_window_is_late() {
        let mut beyond = BeyondWindow::new(&Window::Duration(10));
        let mut verdicts = [NEW, SEEN, SEEN, Verdict::Undecided(Reason::Future), SEEN];
        beyond.call_late(&[100, 89, 90, 500, 101], &mut verdicts);
        let late = Verdict::Undecided(Reason::Late);
        assert_eq!(verdicts, [NEW, late, SEEN, Verdict::Undecided(Reason::Future), SEEN]);
        assert_eq!(beyond.clock_ms, 101);
    }
}
