//! Explains why records are late or have implausible times. The usual reason is that the records of the input are in
//! the wrong order, for example because rotated logs were named in the wrong order. A run prints at most one message
//! about the order, which names the first affected record and says how to sort the input.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::Path;

use firstseen_filter::{FilterDefinition, Lateness, Window, duration};
use firstseen_routing::Answer;

use super::auto_lateness::LATENESS_WINDOWS_MAX;
use crate::input::disorder::{Disorder, Order, rounded_up_ms};
use crate::input::{Batch, STANDARD_INPUT};

/// Limit that separates a wrong order of the input from wrong times. If more than one in this many records has an
/// implausible time, the records are probably in the wrong order. If fewer records or only a single record have an
/// implausible time, these times themselves are probably wrong.
const IMPLAUSIBLE_DIVISOR: usize = 16;

/// Largest step in which a filter measures its window, as a fraction of the window: an eighth.
const STEP_PART: u64 = 8;

/// What is known about the order of the input.
#[derive(Debug, Default)]
pub(super) struct OrderOfInput {
    is_told: bool,
    file: usize,
    /// Greatest time that the files before the present file have reached, in milliseconds.
    before_file_ms: Option<u64>,
    /// Greatest time that the input of this run has reached, in milliseconds. Earlier runs and other producers do not
    /// count, although they move the clock of the filter too.
    reached_ms: Option<u64>,
    /// Whether a record was late because earlier records of this run have later times.
    pub(super) has_own_late: bool,
}

/// The parts of the answers to some consecutive records that depend on the order of times.
pub(super) struct Ordered<'a, F> {
    /// The answers to these records, in order.
    pub(super) answers: &'a [Answer],
    /// Function that returns whether the time of an undecided record is implausible. It takes the index of the record.
    pub(super) is_implausible: F,
    /// Index of the first record that was later than the lateness allows and was judged as if it had come in time.
    pub(super) past_lateness: Option<usize>,
    /// Lateness of the filter, in milliseconds.
    pub(super) lateness_ms: u64,
    /// Window of the filter.
    pub(super) window: &'a Window,
    /// Greatest time that was judged, including these records, if this process knows it. Greater times are wrong.
    pub(super) clock_ms: Option<u64>,
}

impl<F: Fn(usize) -> bool> Ordered<'_, F> {
    /// Returns whether all records were judged at their own time.
    fn are_in_time(&self) -> bool {
        // The loop has no branch, because it runs for every chunk of the input.
        let mut are_usual = true;
        for answer in self.answers {
            are_usual &= matches!(answer, Answer::FirstSeen | Answer::Duplicate);
        }
        self.past_lateness.is_none() && are_usual
    }

    /// Returns the indexes of the events whose times are implausible.
    fn implausible(&self) -> impl Iterator<Item = usize> {
        (0..self.answers.len()).filter(|event| match self.answers[*event] {
            Answer::Refused => true,
            Answer::Undecided => (self.is_implausible)(*event),
            _ => false,
        })
    }
}

impl OrderOfInput {
    /// Notes that the next batch is answered from now on.
    pub(super) fn begin<R>(&mut self, batch: &Batch<R>) {
        if batch.file != self.file {
            self.file = batch.file;
            self.before_file_ms = self.reached_ms;
        }
    }

    /// Notes that all events of the batch are answered.
    pub(super) fn end<R>(&mut self, batch: &Batch<R>) {
        let last_ms = batch.last_times_ms().map(|(middle_ms, _)| middle_ms.cast_unsigned());
        self.reached_ms = self.reached_ms.max(last_ms);
    }

    /// Checks whether a wrong order of the input explains why events are late or have implausible times. `found`
    /// contains the answers to the events of `batch`, beginning with event `start`.
    ///
    /// If the order is the reason, the function returns the index of the first affected event and the kind of disorder.
    /// It returns `None` if the order is not the reason, or if the run has already printed a message about the order.
    pub(super) fn look<R, F: Fn(usize) -> bool>(
        &mut self,
        batch: &Batch<R>,
        start: usize,
        found: &Ordered<'_, F>,
    ) -> Option<(usize, Wrong)> {
        if self.is_told || batch.arrived_ms.is_some() || found.are_in_time() {
            return None;
        }
        let late = found.answers.iter().position(|answer| *answer == Answer::Late);
        let event = start + late.into_iter().chain(found.implausible().next()).chain(found.past_lateness).min()?;
        if found.answers[event - start] == Answer::Late && !self.is_late_by_order(batch, event, found.window) {
            return None;
        }
        let wrong = self.wrong(batch, event, found)?;
        self.is_told = true;
        Some((event, wrong))
    }

    /// Notes whether one of the late events of a chunk is late because of the order of the input. `answers` are those
    /// to the events of `batch` from number `start` on.
    pub(super) fn note_late<R>(&mut self, batch: &Batch<R>, start: usize, answers: &[Answer], window: &Window) {
        if self.has_own_late || !answers.contains(&Answer::Late) {
            return;
        }
        let times_ms: Vec<u64> = batch.own_times_ms().take(start + answers.len()).collect();
        let Some((before_ms, chunk_ms)) = times_ms.split_at_checked(start) else { return };
        let mut reached_ms = before_ms.iter().copied().max().max(self.reached_ms).unwrap_or(0);
        for (time_ms, answer) in chunk_ms.iter().zip(answers) {
            if *answer == Answer::Late && reached_ms > time_ms.saturating_add(late_from_ms(window)) {
                self.has_own_late = true;
                return;
            }
            reached_ms = reached_ms.max(*time_ms);
        }
    }

    /// Returns whether the late event number `event` of `batch` is late because earlier records of this run have later
    /// times. Otherwise an earlier run or another producer has moved the clock of the filter.
    pub(super) fn is_late_by_order<R>(&self, batch: &Batch<R>, event: usize, window: &Window) -> bool {
        let mut times_ms = batch.own_times_ms();
        let before_ms = times_ms.by_ref().take(event).max().max(self.reached_ms);
        let Some(before_ms) = before_ms else { return false };
        let Some(time_ms) = times_ms.next() else { return false };
        before_ms > time_ms.saturating_add(late_from_ms(window))
    }

    fn wrong<R, F: Fn(usize) -> bool>(&self, batch: &Batch<R>, event: usize, found: &Ordered<'_, F>) -> Option<Wrong> {
        let times_ms: Vec<u64> = batch.own_times_ms().collect();
        let time_ms = *times_ms.get(event)?;
        let before_ms = self.before_file_ms.unwrap_or(0).saturating_sub(found.lateness_ms);
        let implausible = found.implausible().count();
        let are_late = found.past_lateness.is_some() || found.answers.contains(&Answer::Late);
        let is_doubt = !are_late && (implausible == 1 || IMPLAUSIBLE_DIVISOR * implausible < found.answers.len());
        let disorder = Disorder::of(&times_ms);
        let behind_run_ms = disorder.behind_ms.max(self.reached_ms.unwrap_or(0).saturating_sub(time_ms));
        match disorder {
            _ if are_late && time_ms < before_ms => Some(Wrong::Files),
            // If the lateness is sufficient for this order, the order is not the reason.
            _ if are_late && behind_run_ms <= found.lateness_ms => None,
            Disorder { order: Order::Descending, behind_ms } => Some(Wrong::Falling { behind_ms }),
            Disorder { order: Order::Unsorted, behind_ms } => Some(Wrong::Unsorted { behind_ms }),
            // A few wrong times among right ones have their own message.
            _ if is_doubt => None,
            Disorder { behind_ms, .. } => {
                let clock_ms = found.clock_ms.unwrap_or(0);
                let before = times_ms[..event].iter().copied().filter(|before_ms| *before_ms <= clock_ms);
                let reached_ms = before.max().max(self.reached_ms).unwrap_or(0);
                let behind_ms = behind_ms.max(reached_ms.saturating_sub(time_ms));
                // If the lateness is sufficient for this order, the order is not the reason.
                (behind_ms > found.lateness_ms).then_some(Wrong::Disordered { behind_ms })
            }
        }
    }
}

/// Returns by how much, in milliseconds, records of the run must precede the time of a late record if they are the
/// reason why it is late.
fn late_from_ms(window: &Window) -> u64 {
    match window {
        // A filter measures the window in steps, so that a record can be late a step earlier.
        Window::Duration(window_ms) => window_ms - window_ms / STEP_PART,
        _ => 0,
    }
}

/// What is wrong with the order of the input. `behind_ms` says how long after records with later times other records
/// come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    /// A file is older than a file that is named before it.
    Files,
    /// The newest record comes first.
    Falling { behind_ms: u64 },
    /// The records are sorted by something other than time.
    Unsorted { behind_ms: u64 },
    /// Records come late.
    Disordered { behind_ms: u64 },
}

impl Wrong {
    /// Returns the message that tells the user what is wrong with the order of the input, and how to correct it.
    /// `place` names the affected record, and `file` is the name of the file that contains it. `definition` is the
    /// definition of a filter in this process, and `None` for a filter of a cluster.
    pub(super) fn message(self, place: &str, file: &str, definition: Option<&FilterDefinition>) -> String {
        let (what, sorted, behind_ms) = match self {
            Self::Files => {
                return format!(
                    "firstseen: {place}: late, as its file is older than one named before it: name the oldest file first, \
                     as `ls -tr` lists them"
                );
            }
            Self::Falling { behind_ms } => {
                let sorted = format!("sort oldest first (`{} | firstseen dedup ...`, without a header)", tac(file));
                ("times go backwards".to_owned(), sorted, behind_ms)
            }
            Self::Unsorted { behind_ms } => {
                let what = format!("times are in no order, up to {} apart", shown(behind_ms));
                (what, "sort by time first".to_owned(), behind_ms)
            }
            Self::Disordered { behind_ms } => {
                let what = format!("records come up to {} after younger ones", shown(behind_ms));
                (what, "sort oldest first".to_owned(), behind_ms)
            }
        };
        format!("firstseen: {place}: {what}: {sorted}{}", or_lateness(behind_ms, definition))
    }
}

/// Returns a command that writes the lines of a file in reverse order. `file` is the name of the file in messages.
fn tac(file: &str) -> String {
    let extension = Path::new(file).extension().and_then(OsStr::to_str).unwrap_or_default();
    let shown = shlex::try_quote(file).map_or_else(|_| "FILE".to_owned(), Cow::into_owned);
    match extension {
        _ if file == STANDARD_INPUT => "... | tac".to_owned(),
        "gz" => format!("zcat {shown} | tac"),
        "bz2" => format!("bzcat {shown} | tac"),
        "xz" => format!("xzcat {shown} | tac"),
        "zst" => format!("zstdcat {shown} | tac"),
        _ => format!("tac {shown}"),
    }
}

fn shown(length_ms: u64) -> String {
    duration(rounded_up_ms(length_ms))
}

/// Returns the flag that lets the filter judge records which come `behind_ms` late, as an alternative to sorting the
/// input.
fn or_lateness(behind_ms: u64, definition: Option<&FilterDefinition>) -> String {
    let lateness_ms = rounded_up_ms(behind_ms);
    // The flag accepts a duration in a single unit only.
    let lateness = Window::Duration(lateness_ms);
    let Some(definition) = definition else {
        return format!(", or use a filter that was created with --lateness {lateness}");
    };
    let Window::Duration(window_ms) = definition.window else { return String::new() };
    let most_ms = window_ms.saturating_mul(LATENESS_WINDOWS_MAX);
    let kind = match definition.cells.kind().properties().lateness {
        // The default kind is one of these kinds, so it has room for the requested lateness.
        Lateness::Free | Lateness::TakesMemory => "",
        Lateness::Refused | Lateness::TakesJumps => " --kind timing",
    };
    if lateness_ms <= most_ms {
        format!(", or use --lateness {lateness}{kind}")
    } else {
        let most = Window::Duration(most_ms);
        format!(" (--lateness goes up to {most}, twice the window)")
    }
}

#[cfg(test)]
mod tests {
    use firstseen_filter::{FilterSpec, Kind};

    use super::*;

    const HOUR_MS: u64 = 3_600_000;

    fn message(wrong: Wrong, kind: Kind, window: &str) -> String {
        let spec =
            FilterSpec { capacity_events: Some(1000), ..FilterSpec::new(kind, window.parse().expect("a window")) };
        wrong.message("log:7", "log", Some(&spec.resolve().expect("a definition")))
    }

    #[test]
    fn the_line_names_what_helps() {
        let falling = Wrong::Falling { behind_ms: 3 * HOUR_MS - 1 };
        let line = message(falling, Kind::Timing, "24h");
        assert_eq!(
            line,
            "firstseen: log:7: times go backwards: sort oldest first (`tac log | firstseen dedup ...`, without a header), or \
             use --lateness 3h"
        );
        assert!(message(falling, Kind::Timing, "1h").ends_with("(--lateness goes up to 2h, twice the window)"));
        assert!(message(falling, Kind::Counting, "24h").ends_with("or use --lateness 3h --kind timing"));
        assert!(message(falling, Kind::Bloom, "landmark:1h").ends_with("without a header)"), "no lateness is allowed");
        assert!(falling.message("log:7", "log", None).ends_with("a filter that was created with --lateness 3h"));
        let late = message(Wrong::Disordered { behind_ms: 899_000 }, Kind::Timing, "10m");
        assert_eq!(
            late,
            "firstseen: log:7: records come up to 15m after younger ones: sort oldest first, or use --lateness 15m"
        );
        assert!(
            message(Wrong::Unsorted { behind_ms: HOUR_MS }, Kind::Timing, "1h").contains("in no order, up to 1h apart")
        );
        assert!(message(Wrong::Files, Kind::Timing, "1h").contains("oldest file first"));
    }
}
