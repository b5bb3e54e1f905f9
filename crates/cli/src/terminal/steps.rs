//! Shows the progress of a command that has a known number of steps.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal::progress::target;

/// Progress of a known number of steps. Nothing is shown if stderr is not a terminal.
pub struct Steps {
    bar: ProgressBar,
}

impl Steps {
    /// Creates a progress display for `steps` steps, which are counted in `unit`. Nothing is drawn if records are
    /// written to a terminal.
    pub fn new(steps: u64, unit: &'static str, records_on_stdout: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), target(records_on_stdout));
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(unit);
        Self { bar }
    }

    /// Shows that `left` steps are left.
    pub fn left(&self, left: u64) {
        let steps = self.bar.length().unwrap_or(left).max(left);
        self.bar.set_length(steps);
        self.bar.set_position(steps - left);
    }

    /// Prints a line from time to time if output goes to a pipe, which cannot show a bar. `elapsed` is the time since
    /// the beginning.
    pub(crate) fn say(&self, pace: &mut Pace, elapsed: Duration, line: impl FnOnce() -> String) {
        if self.bar.is_hidden() && pace.is_due(elapsed) {
            notice!("{}", line());
        }
    }

    /// Prints a line without disturbing the bar.
    pub fn note(&self, line: &str) {
        self.bar.suspend(|| notice!("{line}"));
    }

    /// Removes the bar.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Schedule of the progress lines that replace a progress bar in a pipe. The first line is printed after one second, so
/// that the command does not seem to hang. Further lines follow every few seconds.
pub(crate) struct Pace {
    due: Duration,
}

impl Pace {
    const FIRST: Duration = Duration::from_secs(1);
    const EVERY: Duration = Duration::from_secs(5);

    pub(crate) fn new() -> Self {
        Self { due: Self::FIRST }
    }

    /// Returns whether a line is due. If it is, schedules the next line.
    fn is_due(&mut self, elapsed: Duration) -> bool {
        let is_due = elapsed >= self.due;
        if is_due {
            self.due = elapsed + Self::EVERY;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_soon_and_then_every_few_seconds() {
        let mut pace = Pace::new();
        let due: Vec<u64> = (0..=180).filter(|tenth| pace.is_due(Duration::from_millis(tenth * 100))).collect();
        assert_eq!(due, [10, 60, 110, 160]);
    }
}
