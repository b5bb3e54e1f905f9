//! Counts records that cannot be judged, by reason, and names the first of each reason.
//!
//! Promises: the first record of each reason has a line with its place and the cure; the end has the numbers. Must not know:
//! where records go.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::PathBuf;

use firstseen_records::{RejectKind, RejectReason};

use super::{Fate, UnjudgedArg, UnjudgedReason};
use crate::exit::UsageError;
use crate::input::name;
use crate::terminal::progress::Progress;
use crate::text::numbers::grouped;

/// The line of a file on which a record begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The index of the file.
    pub(crate) file: usize,
    /// The 1-based line.
    pub(crate) line: u64,
}

/// The records of a run that could not be judged.
pub(crate) struct Unjudged {
    files: Vec<PathBuf>,
    arg: UnjudgedArg,
    has_rejected_file: bool,
    /// Whether records are passed on anywhere.
    has_output: bool,
    by_reason: BTreeMap<UnjudgedReason, u64>,
    named: BTreeSet<UnjudgedReason>,
    /// The first record: its place, what is wrong with it, and the cure.
    first: Option<String>,
    /// Lines that wait until it is known whether the run writes anything; `None` from then on.
    held_lines: Option<Vec<String>>,
    blank_lines: u64,
    unread: u64,
    rejected: u64,
    last_fate: Option<Fate>,
}

impl Unjudged {
    /// No record yet. `has_rejected_file` says that records that cannot be read go to a file.
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

    /// The same for a run that passes records on only if `has_output`.
    pub(crate) fn with_output(self, has_output: bool) -> Self {
        Self { has_output, ..self }
    }

    /// Counts a record that the parser rejects. A blank line is no record: it is counted apart, and ends no run.
    ///
    /// # Errors
    /// With `--unjudged fail`.
    pub(crate) fn unread(&mut self, reason: &RejectReason, place: Place, progress: &Progress) -> anyhow::Result<Fate> {
        let kind = reason.kind();
        let fate = match kind {
            // It is no whole record, and the run ends with an error.
            RejectKind::BrokenOff if !self.has_rejected_file => Fate::Dropped,
            _ => self.aside(),
        };
        if kind == RejectKind::Blank {
            self.blank_lines += 1;
        } else {
            self.unread += 1;
            self.count(UnjudgedReason::Unread(kind), place, reason, fate, progress)?;
        }
        self.rejected += u64::from(fate == Fate::Rejected && kind != RejectKind::Blank);
        self.last_fate = Some(fate);
        Ok(fate)
    }

    /// Counts a record whose time is doubted.
    ///
    /// # Errors
    /// With `--unjudged fail`.
    pub(crate) fn doubted(&mut self, place: Place, progress: &Progress) -> anyhow::Result<Fate> {
        let details = "its time is more than --future-max ahead of the others, which do not bear it out";
        self.unread += 1;
        let fate = self.count(UnjudgedReason::Future, place, details, self.aside(), progress)?;
        self.rejected += u64::from(fate == Fate::Rejected);
        Ok(fate)
    }

    /// Counts a record that could be read, and of which the filter or the cluster says nothing.
    ///
    /// # Errors
    /// With `--unjudged fail`.
    pub(crate) fn undecided(
        &mut self,
        reason: UnjudgedReason,
        details: &str,
        place: Place,
        progress: &Progress,
    ) -> anyhow::Result<Fate> {
        self.count(reason, place, details, self.passed(), progress)
    }

    fn count(
        &mut self,
        reason: UnjudgedReason,
        place: Place,
        details: impl Display,
        fate: Fate,
        progress: &Progress,
    ) -> anyhow::Result<Fate> {
        *self.by_reason.entry(reason).or_default() += 1;
        if self.named.contains(&reason) && self.first.is_some() && self.arg != UnjudgedArg::Fail {
            return Ok(fate);
        }
        let place = self.place(place);
        let name = reason.name();
        let cure = reason.cure();
        self.first.get_or_insert_with(|| format!("{place}: {details}; {cure}"));
        if self.arg == UnjudgedArg::Fail {
            let text = format!("{place}: {details} ({name}); --unjudged fail ends the run before it; {cure}");
            return Err(UsageError(text).into());
        }
        if self.named.insert(reason) {
            self.say(format!("firstseen: {place}: {}: {details} ({name}); {cure}", self.words(fate)), progress);
        }
        Ok(fate)
    }

    /// Prints a line about records, as soon as it is known that the run writes something.
    pub(crate) fn say(&mut self, line: String, progress: &Progress) {
        match &mut self.held_lines {
            Some(lines) => lines.push(line),
            None => progress.note(&line),
        }
    }

    /// The run writes its outputs: prints the lines that have waited for that.
    pub(crate) fn say_held(&mut self, progress: &Progress) {
        for line in self.held_lines.take().into_iter().flatten() {
            progress.note(&line);
        }
    }

    /// Names the first record of this reason whose fate the user has chosen, so that it counts as judged.
    pub(crate) fn name_chosen(&mut self, reason: UnjudgedReason, fate: &str, place: Place, progress: &Progress) {
        if self.named.insert(reason) {
            let line = format!(
                "firstseen: {}: {fate}: {} ({}); {}",
                self.place(place),
                reason.meaning(),
                reason.name(),
                reason.cure()
            );
            self.say(line, progress);
        }
    }

    /// A line about this reason was printed by somebody else.
    pub(crate) fn was_named(&mut self, reason: UnjudgedReason) {
        self.named.insert(reason);
    }

    /// The fate of a record that `--rejected` takes.
    fn aside(&self) -> Fate {
        if self.has_rejected_file { Fate::Rejected } else { self.passed() }
    }

    /// The fate of a record that `--rejected` does not take.
    pub(crate) fn passed(&self) -> Fate {
        match self.arg {
            UnjudgedArg::Drop => Fate::Dropped,
            UnjudgedArg::Pass | UnjudgedArg::Fail => Fate::Passed,
        }
    }

    /// The fate of the record that was counted last among those that the parser rejects.
    pub(crate) fn last_fate(&self) -> Option<Fate> {
        self.last_fate
    }

    /// Returns whether the run ends with the first record that cannot be judged.
    pub(crate) fn ends_the_run(&self) -> bool {
        self.arg == UnjudgedArg::Fail
    }

    /// The name of a line in messages.
    pub(crate) fn place(&self, Place { file, line }: Place) -> String {
        format!("{}:{line}", self.file_name(file))
    }

    /// The name of a file in messages.
    pub(crate) fn file_name(&self, file: usize) -> String {
        self.files.get(file).map_or_else(String::new, |path| name(path))
    }

    /// How many records could not be judged; blank lines are none.
    pub(crate) fn total(&self) -> u64 {
        self.by_reason.values().sum()
    }

    /// How many records have a reason that says something about them, and not about nodes in trouble.
    pub(crate) fn total_without_trouble(&self) -> u64 {
        self.by_reason.iter().filter(|(reason, _)| !reason.is_trouble()).map(|(_, count)| count).sum()
    }

    /// How many records could not be read, or have a time that is doubted: the ones that `--rejected` takes.
    pub(crate) fn unread_total(&self) -> u64 {
        self.unread
    }

    /// Blank lines between records.
    pub(crate) fn blank_lines(&self) -> u64 {
        self.blank_lines
    }

    /// The counts by the names of the reasons.
    pub(crate) fn by_reason(&self) -> BTreeMap<Cow<'static, str>, u64> {
        self.by_reason.iter().map(|(reason, count)| (reason.name(), *count)).collect()
    }

    /// The first record that could not be judged: its place, what is wrong with it, and the cure.
    pub(crate) fn first(&self) -> &str {
        self.first.as_deref().unwrap_or_default()
    }

    /// Prints how many there were by reason, where more than one record had a reason.
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

    /// What becomes of a record, in messages.
    fn words(&self, fate: Fate) -> &'static str {
        match fate {
            Fate::Passed if self.has_output => "passed on unjudged",
            Fate::Passed => "not counted",
            Fate::Rejected => "rejected",
            Fate::Dropped => "dropped",
        }
    }

    /// What became of all of them.
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

/// `1,200 missing_field, 3 late`.
pub(crate) fn listed(by_reason: &BTreeMap<Cow<'static, str>, u64>) -> String {
    let counts = by_reason.iter().map(|(name, count)| format!("{} {name}", grouped(*count)));
    counts.collect::<Vec<_>>().join(", ")
}
