//! Shows the progress of a pipe on a terminal.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use firstseen_pipe::{Counts, Figures};
use indicatif::{ProgressBar, ProgressStyle};

use crate::terminal::progress::target;
use crate::text::numbers::grouped;

/// Time between two updates.
const EVERY: Duration = Duration::from_millis(250);

/// Progress display. Nothing is shown if stderr is not a terminal.
pub(super) struct PipeProgress {
    bar: ProgressBar,
    is_over: Arc<AtomicBool>,
    /// Thread that updates the display. `None` if nothing is shown.
    thread: Option<JoinHandle<()>>,
}

impl PipeProgress {
    /// Starts to show the figures of `counts`.
    pub(super) fn start(counts: Counts) -> Self {
        let bar = ProgressBar::with_draw_target(None, target(false));
        let is_over = Arc::new(AtomicBool::new(false));
        if bar.is_hidden() {
            return Self { bar, is_over, thread: None };
        }
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        let shown = bar.clone();
        let is_done = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            while !is_done.load(Ordering::Relaxed) {
                shown.set_message(line(&counts.figures()));
                shown.tick();
                thread::sleep(EVERY);
            }
        });
        Self { bar, is_over, thread: Some(thread) }
    }

    /// Prints a line without disturbing the display.
    pub(super) fn note(&self, line: &str) {
        self.bar.suspend(|| notice!("firstseen: {line}"));
    }

    /// Removes the display.
    pub(super) fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.bar.finish_and_clear();
        if let Some(thread) = self.thread {
            let _ = thread.join();
        }
    }
}

fn line(figures: &Figures) -> String {
    let lag: i64 = figures.lag.values().sum();
    let ready = format!("{} of {} partitions ready", figures.partitions.ready, figures.partitions.assigned);
    format!(
        "{} events, {} duplicates, {} behind, {ready}",
        grouped(figures.events),
        grouped(figures.duplicates),
        grouped(lag.unsigned_abs())
    )
}
