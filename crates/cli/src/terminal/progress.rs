//! Shows progress on a terminal: as a bar if the size of the input is known, and as a counter otherwise.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Progress of a run over a long input. Nothing is shown if stderr is not a terminal.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Creates a progress display on stderr. It stays hidden if stderr is not a terminal, or if records are written to
    /// a terminal too.
    pub fn new(input_bytes: Option<u64>, records_on_stdout: bool) -> Self {
        let target = target(records_on_stdout);
        let seen = !target.is_hidden();
        let bar = ProgressBar::with_draw_target(input_bytes, target);
        let template = match input_bytes {
            Some(_) => "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} eta {eta} {msg}",
            None => "{spinner} {bytes} {bytes_per_sec} {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if seen {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self { bar }
    }

    /// Shows that `bytes` bytes of the input were read. `message` returns the results so far.
    pub fn at(&self, bytes: u64, message: impl FnOnce() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_position(bytes);
            self.bar.set_message(message());
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

/// Prints a line from code that has no access to the bar. The line overwrites the bar, which is drawn again below it.
#[cfg(feature = "full")]
pub(crate) fn print_above_bar(line: &str) {
    let clears = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
    notice!("{clears}{line}");
}

/// Returns where the progress bar is drawn, which is stderr. The bar is hidden if stderr is not a terminal. It is also
/// hidden if the records are written to a terminal, because the bar and the records would be mixed on the screen.
pub(crate) fn target(records_on_stdout: bool) -> ProgressDrawTarget {
    if std::io::stderr().is_terminal() && !(records_on_stdout && std::io::stdout().is_terminal()) {
        ProgressDrawTarget::stderr_with_hz(5)
    } else {
        ProgressDrawTarget::hidden()
    }
}
