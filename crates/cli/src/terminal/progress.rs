//! Progress on a terminal: a bar where the size of the input is known, a counter where it is not.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The progress of a long input on a terminal; nothing where there is none.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Draws on stderr if that is a terminal, and records do not go to a terminal too.
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

    /// So many bytes of the input are read; `message` says what was found in them.
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

/// Prints a line where the caller does not hold the bar: the line overwrites the bar, which is drawn anew below.
#[cfg(feature = "full")]
pub(crate) fn tell_over(line: &str) {
    let clears = if std::io::stderr().is_terminal() { "\r\x1b[K" } else { "" };
    notice!("{clears}{line}");
}

/// Stderr, if that is a terminal, and records do not go to a terminal too.
pub(crate) fn target(records_on_stdout: bool) -> ProgressDrawTarget {
    if std::io::stderr().is_terminal() && !(records_on_stdout && std::io::stdout().is_terminal()) {
        ProgressDrawTarget::stderr_with_hz(5)
    } else {
        ProgressDrawTarget::hidden()
    }
}
