//! Progress of a command that does a known number of steps.

use indicatif::{ProgressBar, ProgressStyle};

use crate::progress::target;

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

    /// Prints a line without disturbing the bar.
    pub(crate) fn note(&self, line: &str) {
        self.bar.suspend(|| tell!("{line}"));
    }

    /// Takes the bar away.
    pub(crate) fn end(&self) {
        self.bar.finish_and_clear();
    }
}
