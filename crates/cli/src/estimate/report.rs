//! The report of an `estimate` run, as text for users and as JSON for scripts. The JSON form is one object on one line,
//! whose fields have the names of the struct fields in this module.

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

/// A key and an estimate of how often it occurred recently.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimated {
    /// The key, cut to [`crate::report::heavy::NAME_BYTES_MAX`] bytes.
    pub key: String,
    /// Estimate at the end of the run.
    pub estimate: f64,
}

/// Numbers of records by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EstimateCounts {
    /// Records that could be read, which are all records except `rejected`.
    pub events: u64,
    /// Records of an earlier epoch than a record before them. They count with their present value.
    pub late: u64,
    /// Records that were written because of `--min-estimate`.
    pub chosen: u64,
    /// Records that could not be read, or whose time was too far in the future. These are the records that go to
    /// `--rejected`.
    pub rejected: u64,
}

/// Everything that a report shows.
#[derive(Debug, Serialize)]
pub struct EstimateReport {
    /// Numbers of records by what happened to them.
    #[serde(flatten)]
    pub counts: EstimateCounts,
    /// Numbers of records that could not be judged, by reason.
    pub unjudged: BTreeMap<Cow<'static, str>, u64>,
    /// Number of blank lines between records, which do not count as records.
    pub blank_lines: u64,
    /// Counts of the parts of the input that belong to no record.
    #[serde(flatten)]
    pub left_out: LeftOut,
    /// Memory of the filter in bytes.
    pub filter_bytes: u64,
    /// Probability that a key never seen before would now have an estimate above zero, computed from the present
    /// content of the cells.
    pub expected_fpr: f64,
    /// Maximum amount by which an estimate is below the true value, as long as no counter is full.
    pub epsilon: f64,
    /// Number of occurrences that could not be counted in full because counters were full, in this run or before.
    pub degraded: u64,
    /// Number of epochs without input after which every estimate is zero. `None` means that the filter uses the literal
    /// rule of the paper, under which an estimate becomes ever smaller but never zero.
    pub silence_epochs: Option<u64>,
    /// Duration of the run in seconds.
    pub seconds: f64,
    /// Events per second.
    pub events_per_s: f64,
    /// Description of the filter.
    pub filter: String,
    /// Value of an occurrence after one epoch.
    pub lambda: f64,
    /// Length of an epoch.
    pub epoch: String,
    /// Seed of the hash. With `--seed` and this value, the same run gives the same answers.
    pub seed: u64,
    /// Time zone of times without a zone.
    pub time_zone: String,
    /// The keys with the greatest estimates.
    pub top_keys: Vec<Estimated>,
    /// Errors compared with the exact frequencies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<EstimateErrors>,
    /// Whether a signal ended the run.
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
