//! The report of an `estimate` run, for people and for scripts.
//!
//! Promises: the JSON form is one object on one line with the names below. Must not know: how the figures were
//! computed.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use firstseen_records::printable;
use serde::Serialize;

use super::exact::EstimateErrors;
use crate::input::left_out::LeftOut;
use crate::text::numbers::{grouped, rate};
use crate::text::size::ByteSize;
use crate::unjudged::counts::listed;

/// A key and how often it occurred lately.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimated {
    /// The key, cut to [`crate::report::heavy::NAME_BYTES_MAX`] bytes.
    pub key: String,
    /// Its estimate at the end of the run.
    pub estimate: f64,
}

/// Records by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EstimateCounts {
    /// Records that could be read: all but `rejected`.
    pub events: u64,
    /// Of an earlier epoch than a record before: counted with what they are worth now.
    pub late: u64,
    /// Written for `--min-estimate`.
    pub chosen: u64,
    /// Could not be read, or lay too far in the future: those that `--rejected` takes.
    pub rejected: u64,
}

/// A report.
#[derive(Debug, Serialize)]
pub struct EstimateReport {
    /// Records by what became of them.
    #[serde(flatten)]
    pub counts: EstimateCounts,
    /// Records that could not be judged, by reason.
    pub unjudged: BTreeMap<Cow<'static, str>, u64>,
    /// Blank lines between records, which are no records.
    pub blank_lines: u64,
    /// Parts of the input that belong to no record.
    #[serde(flatten)]
    pub left_out: LeftOut,
    /// Bytes that the filter takes.
    pub filter_bytes: u64,
    /// The chance that a key never seen would have an estimate above zero now, from the cells as they are.
    pub expected_fpr: f64,
    /// The most by which an estimate is below the truth, while nothing is degraded.
    pub epsilon: f64,
    /// Occurrences that could not be counted in full, in this run or before.
    pub degraded: u64,
    /// Epochs without input after which every estimate is zero; none with the literal rule.
    pub silence_epochs: Option<u64>,
    /// Time taken.
    pub seconds: f64,
    /// Events a second.
    pub events_per_s: f64,
    /// What the filter is.
    pub filter: String,
    /// What an occurrence is worth one epoch later.
    pub lambda: f64,
    /// Length of an epoch.
    pub epoch: String,
    /// Seed of the hash: with `--seed` the same run gives the same answers.
    pub seed: u64,
    /// Zone of times that did not name theirs.
    pub time_zone: String,
    /// The keys with the greatest estimates.
    pub top_keys: Vec<Estimated>,
    /// Errors against the exact frequencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<EstimateErrors>,
    /// Whether the run was ended by a signal.
    pub interrupted: bool,
}

impl EstimateReport {
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let EstimateCounts { events, late, chosen, rejected } = self.counts;
        push_line(&mut text, "events", grouped(events));
        for (name, count, meaning) in [
            ("late", late, ": of an earlier epoch, counted for what is left of them"),
            ("chosen", chosen, ": estimates of at least --min-estimate"),
            ("rejected", rejected, ""),
            ("left out", self.left_out.repeated_headers, ": repeats of the header"),
            ("left out", self.left_out.hole_bytes, " NUL bytes in front of records"),
        ] {
            if count > 0 {
                push_line(&mut text, name, grouped(count) + meaning);
            }
        }
        if !self.unjudged.is_empty() {
            push_line(
                &mut text,
                "not judged",
                format!("{}: {}", grouped(self.unjudged.values().sum()), listed(&self.unjudged)),
            );
        }
        push_line(&mut text, "filter", format!("{}, seed {}", self.filter, self.seed));
        push_line(&mut text, "memory", ByteSize(self.filter_bytes).to_string());
        push_line(
            &mut text,
            "expected fpr",
            format!("{}: keys never seen with an estimate above zero", rate(self.expected_fpr)),
        );
        push_line(&mut text, "epsilon", format!("{:.4}: no estimate is further below the truth", self.epsilon));
        if self.degraded > 0 {
            push_line(&mut text, "degraded", format!("{}: occurrences not counted in full", grouped(self.degraded)));
        }
        push_line(&mut text, "time zone", self.time_zone.clone());
        push_line(&mut text, "time", format!("{:.2} s, {} events/s", self.seconds, grouped(self.events_per_s as u64)));
        if let Some(errors) = &self.verify {
            push_line(&mut text, "verified", errors.text());
        }
        if !self.top_keys.is_empty() {
            text.push_str("greatest estimates\n");
        }
        for Estimated { key, estimate } in &self.top_keys {
            let _ = writeln!(text, "  {estimate:>12.2}  {}", printable(key));
        }
        if self.interrupted {
            text.push_str("interrupted: the report and the files cover the records up to here\n");
        }
        text
    }
}

fn push_line(text: &mut String, name: &str, value: String) {
    let _ = writeln!(text, "{name:<14} {value}");
}

impl EstimateErrors {
    fn text(&self) -> String {
        format!(
            "mean error {:.4}, at most {:.4} above and {:.4} below; {} below by more than epsilon\n{:<14} fpr {} ({} of {} unseen keys)",
            self.mean_error,
            self.max_overcount,
            self.max_undercount,
            grouped(self.undercounts_beyond_epsilon),
            "",
            rate(self.fpr),
            grouped(self.unseen_above_zero),
            grouped(self.unseen)
        )
    }
}
