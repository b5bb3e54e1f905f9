//! Progress of a command that does a known number of steps.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal::progress::target;

/// What a person watches while a known number of steps is done; nothing where nobody watches.
pub(crate) struct Steps {
    bar: ProgressBar,
}

impl Steps {
    /// So many of what `unit` names, where nothing else goes to a terminal meanwhile.
    pub(crate) fn new(steps: u64, unit: &'static str, records_on_stdout: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), target(records_on_stdout));
        if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_message(unit);
        Self { bar }
    }

    /// So many are left.
    pub(crate) fn left(&self, left: u64) {
        let steps = self.bar.length().unwrap_or(left).max(left);
        self.bar.set_length(steps);
        self.bar.set_position(steps - left);
    }

    /// Says a line now and then to who reads a pipe instead of watching a bar; `elapsed` is the time since it began.
    pub(crate) fn say(&self, pace: &mut Pace, elapsed: Duration, line: impl FnOnce() -> String) {
        if self.bar.is_hidden() && pace.is_due(elapsed) {
            tell!("{}", line());
        }
    }

    /// Prints a line without disturbing the bar.
    pub(crate) fn note(&self, line: &str) {
        self.bar.suspend(|| tell!("{line}"));
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// When a line is due: soon after the beginning, so that nobody takes a command for stuck, and then every few seconds.
pub(crate) struct Pace {
    due: Duration,
}

impl Pace {
    const FIRST: Duration = Duration::from_secs(1);
    const EVERY: Duration = Duration::from_secs(5);

    pub(crate) fn new() -> Self {
        Self { due: Self::FIRST }
    }

    /// Whether a line is due; the next is so later.
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
