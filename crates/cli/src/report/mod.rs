//! The report of a `dedup` run, as text for users and as JSON for scripts. The JSON form is one object on one line,
//! whose fields have the names of the struct fields in this module.

pub mod describe;
pub mod filter;
pub mod heavy;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use clap::ValueEnum;
use firstseen_filter::Tally;
use firstseen_records::printable;
use jiff::Timestamp;
use serde::Serialize;

use crate::input::Times;
use crate::input::left_out::LeftOut;
use crate::text::lines::{NAME_WIDTH, wrapped};
use crate::text::numbers::{grouped, rate};
use crate::text::style::{Colour, Look};
use crate::unjudged::counts::listed;
use filter::FilterReport;
use heavy::Counted;

/// Width in characters of the bars for the shares of first-seen records and of duplicates.
const SHARE_LETTERS: usize = 40;
/// Width in characters of the counts in front of these bars. If a count is longer, its bar starts further to the right.
const COUNT_LETTERS: usize = 24;
/// Width in characters of the bars for counts of keys and sources.
const COUNTED_LETTERS: usize = 12;

/// Form in which a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Text for users
    Text,
    /// One JSON object on one line
    Json,
    /// No report
    None,
}

/// Numbers of records by what happened to them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Records that could be read, which are all records counted below except `rejected`.
    pub events: u64,
    /// Records that were reported as first-seen.
    pub first_seen: u64,
    /// Records that were reported as duplicates.
    pub duplicates: u64,
    /// Records without a verdict, because the filter was full or the cluster had a problem. They were passed on, unless
    /// `--unjudged` drops them.
    pub undecided: u64,
    /// Number of records that came too late to be judged, because they are older than the window and the lateness
    /// together. By default, such records are passed on, and they are also counted in `first_seen`. The flags `--late`
    /// and `--unjudged` can change this.
    pub late: u64,
    /// Records that could not be read, or whose time was too far in the future. These are the records that go to
    /// `--rejected`.
    pub rejected: u64,
}

/// Numbers of duplicates by the result of looking them up in an exact cache of the records that were passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Confirmed {
    /// Duplicates of records that were certainly passed on within the window.
    pub certain: u64,
    /// Duplicates that are not in the cache. They are either false positives, or the cache has dropped them because it
    /// was full.
    pub uncertain: u64,
}

/// Numbers of correct and wrong verdicts, compared with the exact answer (`--verify exact`).
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Verified {
    /// Events that were reported as duplicates and had been passed on within the window.
    pub tp: u64,
    /// Events that were wrongly reported as duplicates when their key was tested for the first time.
    pub fp: u64,
    /// Events that were reported as first-seen when their key was tested for the first time.
    pub tn: u64,
    /// Events that were reported as first-seen although they had been passed on within the window.
    #[serde(rename = "fn")]
    pub fn_: u64,
    /// Events that none of these four counts contains. An event with their key came within the window, so this is not
    /// the first test of the key, but it was not passed on within the window, so the event need not be a duplicate.
    pub not_compared: u64,
    /// Events without a verdict, because the filter was full, although their key had occurred within the window. These
    /// repeats were passed on.
    pub undecided_repeats: u64,
    /// False-positive rate `fp / (fp + tn)` over first tests. Events without a verdict count as negatives.
    pub fpr: f64,
    /// Share of events reported as duplicates among all events that had not been passed on before.
    pub fpr_events: f64,
    /// False-negative rate `fn / (fn + tp)`.
    pub fnr: f64,
    /// F1 score `2 tp / (2 tp + fp + fn)`.
    pub f1: f64,
}

/// Everything that a report shows.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Numbers of records by what happened to them.
    #[serde(flatten)]
    pub counts: Counts,
    /// Whether records without a verdict were dropped instead of passed on.
    #[serde(skip)]
    pub drops_undecided: bool,
    /// Numbers of records that could not be judged, by reason.
    pub unjudged: BTreeMap<Cow<'static, str>, u64>,
    /// Number of blank lines between records, which do not count as records.
    pub blank_lines: u64,
    /// Counts of the parts of the input that belong to no record.
    #[serde(flatten)]
    pub left_out: LeftOut,
    /// Explanation for users of what happened to late records.
    #[serde(skip)]
    pub late_meaning: String,
    /// The filter that answered, with its numbers.
    #[serde(flatten)]
    pub filter: FilterReport,
    /// Duration of the run in seconds.
    pub seconds: f64,
    /// Events per second.
    pub events_per_s: f64,
    /// Time zone of times without a zone.
    pub time_zone: String,
    /// Where the times of records came from.
    pub times: Times,
    /// The clock of the filter, which is the greatest time of a record that the filter has accepted. A record is late
    /// if its time is before this time by more than the window and the lateness together. `None` means that the window
    /// does not depend on time.
    pub clock: Option<Timestamp>,
    /// The keys that were repeated most often.
    pub top_keys: Vec<Counted>,
    /// The sources with the most duplicates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_sources_duplicates: Option<Vec<Counted>>,
    /// The sources with the most first-seen events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_sources_first_seen: Option<Vec<Counted>>,
    /// Results of looking up duplicates in the exact cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confirm: Option<Confirmed>,
    /// Results of the comparison with the exact answer.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verified>,
    /// Whether a signal ended the run.
    pub interrupted: bool,
}

/// Writes `report` to `path` or to stderr, either as JSON or as the text that `text` returns.
///
/// # Errors
/// Returns an error if the report cannot be written.
pub(crate) fn write<R: Serialize>(
    report: &R,
    text: impl FnOnce(&R, Look) -> String,
    format: ReportFormat,
    path: Option<&Path>,
) -> anyhow::Result<()> {
    let text = match format {
        ReportFormat::None => return Ok(()),
        ReportFormat::Json => serde_json::to_string(report)? + "\n",
        ReportFormat::Text => text(report, path.map_or_else(|| Look::of(&io::stderr()), |_| Look::PLAIN)),
    };
    match path {
        Some(path) => File::create(path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .with_context(|| format!("cannot write the report to {}", path.display())),
        None => Ok(io::stderr().write_all(text.as_bytes())?),
    }
}

impl Report {
    /// Writes the report to `path`, or to stderr.
    ///
    /// # Errors
    /// Returns an error if the report cannot be written.
    pub fn write(&self, format: ReportFormat, path: Option<&Path>) -> anyhow::Result<()> {
        write(self, Self::text, format, path)
    }

    fn text(&self, look: Look) -> String {
        let mut text = String::new();
        let Counts { events, first_seen, duplicates, undecided, late, rejected } = self.counts;
        let shares = shares([first_seen, duplicates, undecided]);
        push_line(&mut text, "events", grouped(events));
        for (name, count, share, colour) in [
            ("first seen", first_seen, &shares[0], Colour::Green),
            ("duplicates", duplicates, &shares[1], Colour::Yellow),
        ] {
            let value = format!("{} ({share})", grouped(count));
            let bar = look.bar(count, events, SHARE_LETTERS, colour);
            push_line(&mut text, name, if bar.is_empty() { value } else { format!("{value:<COUNT_LETTERS$} {bar}") });
        }
        for (name, count, meaning) in [
            ("undecided", undecided, self.filter.undecided(self.drops_undecided).as_str()),
            ("late", late, self.late_meaning.as_str()),
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
        for (name, value) in self.filter.lines() {
            push_line(&mut text, name, value);
        }
        push_line(&mut text, "time zone", self.time_zone.clone());
        if let Some(clock) = self.clock {
            let meaning = match self.times {
                Times::Record => "the greatest time accepted",
                Times::Arrival => "when the last record came: records count from their arrival",
            };
            push_line(&mut text, "clock", format!("{clock}, {meaning}"));
        }
        push_line(&mut text, "time", format!("{:.2} s, {} events/s", self.seconds, grouped(self.events_per_s as u64)));
        if let Some(confirmed) = &self.confirm {
            let Confirmed { certain, uncertain } = confirmed;
            push_line(
                &mut text,
                "confirmed",
                format!("{} certain, {} uncertain", grouped(*certain), grouped(*uncertain)),
            );
        }
        if let Some(verified) = &self.verify {
            push_line(&mut text, "verified", verified.text());
        }
        let [by_duplicates, by_first_seen] = [&self.top_sources_duplicates, &self.top_sources_first_seen];
        for (title, rows, colour) in [
            ("most repeated keys", self.top_keys.as_slice(), Colour::Blue),
            ("sources with most duplicates", by_duplicates.as_deref().unwrap_or(&[]), Colour::Yellow),
            ("sources with most first-seen", by_first_seen.as_deref().unwrap_or(&[]), Colour::Green),
        ] {
            counted(&mut text, title, rows, look, colour);
        }
        if self.interrupted && self.filter.left_to_others() {
            text.push_str(
                "interrupted: the files cover the records up to here, but for those that were left to others\n",
            );
        } else if self.interrupted {
            text.push_str("interrupted: the report and the files cover the records up to here\n");
        }
        text
    }
}

/// Appends a name with its value, on as many lines as the value needs.
fn push_line(text: &mut String, name: &str, value: String) {
    let _ = writeln!(text, "{name:<NAME_WIDTH$} {}", wrapped(&value));
}

impl From<Tally> for Verified {
    fn from(tally: Tally) -> Self {
        Self {
            tp: tally.true_positives,
            fp: tally.false_positives,
            tn: tally.true_negatives,
            fn_: tally.false_negatives,
            not_compared: tally.not_compared(),
            undecided_repeats: tally.undecided_repeats,
            fpr: tally.fpr(),
            fpr_events: tally.fpr_events(),
            fnr: tally.fnr(),
            f1: tally.f1(),
        }
    }
}

impl Verified {
    fn text(&self) -> String {
        let Self { tp, fp, tn, fn_, not_compared, undecided_repeats, fpr, fpr_events, fnr, f1 } = self;
        let [tp, fp, tn, fn_] = [tp, fp, tn, fn_].map(|count| grouped(*count));
        let passed = match undecided_repeats {
            0 => String::new(),
            repeats => format!("\n{:<14} {} repeats passed on, because the filter was full", "", grouped(*repeats)),
        };
        let not_compared = match not_compared {
            0 => String::new(),
            events => format!(
                "\n{:<14} {} not compared: their key came within the window but was not passed on in it",
                "",
                grouped(*events)
            ),
        };
        format!(
            "tp {tp}, fp {fp}, tn {tn}, fn {fn_}\n{:<14} fpr {}, by events {}, fnr {}, f1 {f1:.4}{not_compared}{passed}",
            "",
            rate(*fpr),
            rate(*fpr_events),
            rate(*fnr)
        )
    }
}

fn counted(text: &mut String, title: &str, rows: &[Counted], look: Look, colour: Colour) {
    let Some(greatest) = rows.iter().map(|row| row.count).max() else { return };
    let _ = writeln!(text, "{}", look.strong(title));
    for Counted { key, count, error } in rows {
        let error = if *error > 0 { format!(" (at most {} too many)", grouped(*error)) } else { String::new() };
        let mut bar = look.bar(*count, greatest, COUNTED_LETTERS, colour);
        if !bar.is_empty() {
            bar += "  ";
        }
        let _ = writeln!(text, "  {:>12}  {bar}{}{error}", grouped(*count), printable(key));
    }
}

/// Returns the share of each count in the sum of all counts, as a percentage with one decimal. If all shares were
/// rounded down, their sum would be less than 100 percent. The shares that would lose most by rounding down are
/// therefore rounded up, so that the sum is exactly 100 percent.
fn shares<const PARTS: usize>(counts: [u64; PARTS]) -> [String; PARTS] {
    let sum = counts.iter().map(|count| u128::from(*count)).sum::<u128>().max(1);
    let exact = counts.map(|count| u128::from(count) * 1000);
    let mut tenths = exact.map(|exact| exact / sum);
    let left = exact.iter().map(|exact| exact % sum).sum::<u128>() / sum;
    let mut by_rest: Vec<usize> = (0..PARTS).collect();
    by_rest.sort_by_key(|part| std::cmp::Reverse(exact[*part] % sum));
    by_rest.into_iter().take(left as usize).for_each(|part| tenths[part] += 1);
    tenths.map(|tenths| format!("{}.{} %", tenths / 10, tenths % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up() {
        assert_eq!(shares([8105, 1895, 0]), ["81.1 %", "18.9 %", "0.0 %"]);
        assert_eq!(shares([1, 1, 1]), ["33.4 %", "33.3 %", "33.3 %"]);
        assert_eq!(shares([0, 0]), ["0.0 %", "0.0 %"]);
        assert_eq!(shares([7, 0]), ["100.0 %", "0.0 %"]);
    }
}
