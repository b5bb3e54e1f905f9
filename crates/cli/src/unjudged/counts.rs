//! Counts the records that cannot be judged, by reason. For the first record of each reason, a message on stderr names
//! the place of the record and says what the user can do. The numbers of all reasons are printed at the end of the run.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::PathBuf;

use firstseen_records::{RejectKind, RejectReason};

use super::reason::Explanation;
use super::{Disposition, UnjudgedArg, UnjudgedReason};
use crate::exit::UsageError;
use crate::input::name;
use crate::terminal::progress::Progress;
use crate::text::numbers::grouped;

/// The line of a file on which a record begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Index of the file.
    pub(crate) file: usize,
    /// Line number, starting at 1.
    pub(crate) line: u64,
}

/// Counts of the records in a run that could not be judged.
pub(crate) struct Unjudged {
    files: Vec<PathBuf>,
    arg: UnjudgedArg,
    has_rejected_file: bool,
    /// Whether the run passes records on to any output.
    has_output: bool,
    by_reason: BTreeMap<UnjudgedReason, u64>,
    named: BTreeSet<UnjudgedReason>,
    /// Description of the first record that could not be judged: its place, what is wrong with it, and what the user
    /// can do.
    first: Option<String>,
    /// Messages that are held back until it is known whether the run writes anything. `None` once that is known.
    held_lines: Option<Vec<String>>,
    blank_lines: u64,
    unread: u64,
    rejected: u64,
    last_fate: Option<Disposition>,
}

impl Unjudged {
    /// Creates the counts of a run, which start at zero. `has_rejected_file` says that records that cannot be read are
    /// written to a file.
    pub(crate) fn new(files: Vec<PathBuf>, arg: UnjudgedArg, has_rejected_file: bool) -> Self {
        Self {
            files,
            arg,
            has_rejected_file,
            has_output: true,
            by_reason: BTreeMap::new(),
            named: BTreeSet::new(),
            first: None,
            held_lines: Some(Vec::new()),
            blank_lines: 0,
            unread: 0,
            rejected: 0,
            last_fate: None,
        }
    }

    /// Returns the same counts for a run that passes records on only if `has_output` is true.
    pub(crate) fn with_output(self, has_output: bool) -> Self {
        Self { has_output, ..self }
    }

    /// Counts a record that the parser rejects. A blank line is not a record: it is counted separately and never ends
    /// the run.
    ///
    /// # Errors
    /// Returns an error with `--unjudged fail`.
    pub(crate) fn unread(
        &mut self,
        reason: &RejectReason,
        place: Place,
        progress: &Progress,
    ) -> anyhow::Result<Disposition> {
        let kind = reason.kind();
        let fate = match kind {
            // The record is incomplete, and the run ends with an error anyway.
            RejectKind::BrokenOff if !self.has_rejected_file => Disposition::Dropped,
            _ => self.aside(),
        };
        if kind == RejectKind::Blank {
            self.blank_lines += 1;
        } else {
            self.unread += 1;
            let unread = UnjudgedReason::Unread(kind);
            self.count(unread, place, reason, unread.cure(), fate, progress)?;
        }
        self.rejected += u64::from(fate == Disposition::Rejected && kind != RejectKind::Blank);
        self.last_fate = Some(fate);
        Ok(fate)
    }

    /// Counts a record whose time is not plausible.
    ///
    /// # Errors
    /// Returns an error with `--unjudged fail`.
    pub(crate) fn implausible(&mut self, place: Place, progress: &Progress) -> anyhow::Result<Disposition> {
        let details = "its time is more than --future-max ahead of the others, which do not confirm it";
        self.unread += 1;
        let reason = UnjudgedReason::Future;
        let fate = self.count(reason, place, details, reason.cure(), self.aside(), progress)?;
        self.rejected += u64::from(fate == Disposition::Rejected);
        Ok(fate)
    }

    /// Counts a record that could be read but about which the filter or the cluster made no decision.
    ///
    /// # Errors
    /// Returns an error with `--unjudged fail`.
    pub(crate) fn undecided(
        &mut self,
        reason: UnjudgedReason,
        details: &str,
        place: Place,
        progress: &Progress,
    ) -> anyhow::Result<Disposition> {
        self.count(reason, place, details, reason.cure(), self.passed(), progress)
    }

    /// Counts a late record. `why` explains why it is late.
    ///
    /// # Errors
    /// Returns an error with `--unjudged fail`.
    pub(crate) fn late(&mut self, why: Explanation, place: Place, progress: &Progress) -> anyhow::Result<Disposition> {
        self.count(UnjudgedReason::Late, place, why.meaning, why.cure, self.passed(), progress)
    }

    fn count(
        &mut self,
        reason: UnjudgedReason,
        place: Place,
        details: impl Display,
        cure: &str,
        fate: Disposition,
        progress: &Progress,
    ) -> anyhow::Result<Disposition> {
        *self.by_reason.entry(reason).or_default() += 1;
        if self.named.contains(&reason) && self.first.is_some() && self.arg != UnjudgedArg::Fail {
            return Ok(fate);
        }
        let place = self.place(place);
        let name = reason.name();
        self.first.get_or_insert_with(|| format!("{place}: {details}; {cure}"));
        if self.arg == UnjudgedArg::Fail {
            let text = format!("{place}: {details} ({name}); --unjudged fail ends the run before it; {cure}");
            return Err(UsageError(text).into());
        }
        if self.named.insert(reason) {
            self.print_or_hold(
                format!("firstseen: {place}: {}: {details} ({name}); {cure}", self.words(fate)),
                progress,
            );
        }
        Ok(fate)
    }

    /// Prints a message about records as soon as it is known that the run writes something.
    pub(crate) fn print_or_hold(&mut self, line: String, progress: &Progress) {
        match &mut self.held_lines {
            Some(lines) => lines.push(line),
            None => progress.note(&line),
        }
    }

    /// Prints the messages that were held back, because the run now writes its outputs.
    pub(crate) fn print_held(&mut self, progress: &Progress) {
        for line in self.held_lines.take().into_iter().flatten() {
            progress.note(&line);
        }
    }

    /// Reports the first late record if the user has chosen what happens to late records, so that the record counts as
    /// judged. `why` explains why it is late.
    pub(crate) fn name_chosen(&mut self, why: Explanation, fate: &str, place: Place, progress: &Progress) {
        let reason = UnjudgedReason::Late;
        if self.named.insert(reason) {
            let line =
                format!("firstseen: {}: {fate}: {} ({}); {}", self.place(place), why.meaning, reason.name(), why.cure);
            self.print_or_hold(line, progress);
        }
    }

    /// Notes that a message about this reason was already printed elsewhere.
    pub(crate) fn was_named(&mut self, reason: UnjudgedReason) {
        self.named.insert(reason);
    }

    /// Returns whether a message about this reason was already printed.
    pub(crate) fn has_named(&self, reason: UnjudgedReason) -> bool {
        self.named.contains(&reason)
    }

    /// Returns what happens to a record that belongs into the file of `--rejected`.
    fn aside(&self) -> Disposition {
        if self.has_rejected_file { Disposition::Rejected } else { self.passed() }
    }

    /// Returns what happens to a record that does not belong into the file of `--rejected`.
    pub(crate) fn passed(&self) -> Disposition {
        match self.arg {
            UnjudgedArg::Drop => Disposition::Dropped,
            UnjudgedArg::Pass | UnjudgedArg::Fail => Disposition::Passed,
        }
    }

    /// Returns what happens to the record that the parser rejected last.
    pub(crate) fn last_fate(&self) -> Option<Disposition> {
        self.last_fate
    }

    /// Returns whether the run ends with the first record that cannot be judged.
    pub(crate) fn ends_the_run(&self) -> bool {
        self.arg == UnjudgedArg::Fail
    }

    /// Returns the name of a line in messages.
    pub(crate) fn place(&self, Place { file, line }: Place) -> String {
        format!("{}:{line}", self.file_name(file))
    }

    /// Returns the name of a file in messages.
    pub(crate) fn file_name(&self, file: usize) -> String {
        self.files.get(file).map_or_else(String::new, |path| name(path))
    }

    /// Returns how many records could not be judged. Blank lines do not count.
    pub(crate) fn total(&self) -> u64 {
        self.by_reason.values().sum()
    }

    /// Returns how many records could not be judged for a reason that lies in the record itself, and not in a problem
    /// with nodes.
    pub(crate) fn total_without_trouble(&self) -> u64 {
        self.by_reason.iter().filter(|(reason, _)| !reason.is_trouble()).map(|(_, count)| count).sum()
    }

    /// Returns how many records could not be read or have an implausible time. These are the records that go to
    /// `--rejected`.
    pub(crate) fn unread_total(&self) -> u64 {
        self.unread
    }

    /// Returns the number of blank lines between records.
    pub(crate) fn blank_lines(&self) -> u64 {
        self.blank_lines
    }

    /// Returns the counts by the names of the reasons.
    pub(crate) fn by_reason(&self) -> BTreeMap<Cow<'static, str>, u64> {
        self.by_reason.iter().map(|(reason, count)| (reason.name(), *count)).collect()
    }

    /// Returns a description of the first record that could not be judged: its place, what is wrong with it, and what
    /// the user can do.
    pub(crate) fn first(&self) -> &str {
        self.first.as_deref().unwrap_or_default()
    }

    /// Prints the number of records for each reason, if a reason occurred more than once.
    pub(crate) fn end(&self, progress: &Progress) {
        let total = self.total();
        if total > self.by_reason.len() as u64 && self.arg != UnjudgedArg::Fail {
            let records = if total == 1 { "record was" } else { "records were" };
            let fates = self.fates();
            progress.note(&format!(
                "firstseen: {} {records} not judged: {}; {fates}",
                grouped(total),
                listed(&self.by_reason())
            ));
        }
    }

    /// Returns what happens to a record, as text for messages.
    fn words(&self, fate: Disposition) -> &'static str {
        match fate {
            Disposition::Passed if self.has_output => "passed on unjudged",
            Disposition::Passed => "not counted",
            Disposition::Rejected => "rejected",
            Disposition::Dropped => "dropped",
        }
    }

    /// Returns what happened to all records that could not be judged, as text for messages.
    fn fates(&self) -> String {
        let others = self.total() - self.rejected;
        let what = self.words(self.passed());
        match (self.rejected, others) {
            (0, _) if self.unread > 0 => format!("{what} (--rejected FILE takes those that cannot be read)"),
            (0, _) => what.to_owned(),
            (_, 0) => "rejected".to_owned(),
            (rejected, others) => format!("{} rejected, {} {what}", grouped(rejected), grouped(others)),
        }
    }
}

/// Returns the counts as one line, for example `1,200 missing_field, 3 late`.
pub(crate) fn listed(by_reason: &BTreeMap<Cow<'static, str>, u64>) -> String {
    let counts = by_reason.iter().map(|(name, count)| format!("{} {name}", grouped(*count)));
    counts.collect::<Vec<_>>().join(", ")
}
