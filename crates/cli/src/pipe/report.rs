//! The report at the end of a pipe.

use std::io::Write;

use firstseen_pipe::{Ended, Figures};

use super::args::PipeArgs;
use crate::text::numbers::grouped;

/// Prints the report: as text to stderr, or as JSON to standard output.
pub(super) fn print(args: &PipeArgs, figures: &Figures, ended: Option<&Ended>) -> anyhow::Result<()> {
    if args.run.json {
        let mut report = serde_json::to_value(figures)?;
        report["ended"] = match ended {
            Some(Ended::AtEnd) => "at_end".into(),
            Some(Ended::Stopped) => "stopped".into(),
            None => "failed".into(),
        };
        writeln!(std::io::stdout(), "{report}")?;
        return Ok(());
    }
    notice!("{}", text(figures, args.run.shadow));
    Ok(())
}

fn text(figures: &Figures, is_shadow: bool) -> String {
    let mut lines = Vec::new();
    add(&mut lines, "events", figures.events, "");
    add(&mut lines, "passed", figures.passed, "");
    let duplicates = if is_shadow { " (passed with a header, --shadow)" } else { "" };
    add(&mut lines, "duplicates", figures.duplicates, duplicates);
    for (reason, events) in &figures.undecided {
        add(&mut lines, &format!("undecided, {reason}"), *events, "");
    }
    for (reason, events) in &figures.rejected {
        add(&mut lines, &format!("rejected, {reason}"), *events, "");
    }
    add_if_any(&mut lines, "null values", figures.tombstones, " (passed and not compared)");
    add_if_any(&mut lines, "dead letters", figures.dead_letters, "");
    add(&mut lines, "transactions", figures.attempts.committed, "");
    add_if_any(&mut lines, "aborted", figures.attempts.aborted, " (delivered again)");
    add_if_any(&mut lines, "unknown outcomes", figures.attempts.unknown, " (resolved by the committed offsets)");
    if figures.rebuilds.filters > 0 {
        let events = grouped(figures.rebuilds.events);
        let meaning = format!(" from {events} events in {:.1} s", figures.rebuilds.seconds);
        add(&mut lines, "rebuilt filters", figures.rebuilds.filters, &meaning);
    }
    add_if_any(&mut lines, "checkpoints", figures.checkpoints.saved, "");
    lines.join("\n")
}

fn add(lines: &mut Vec<String>, name: &str, number: u64, meaning: &str) {
    lines.push(format!("{name:18} {:>14}{meaning}", grouped(number)));
}

fn add_if_any(lines: &mut Vec<String>, name: &str, number: u64, meaning: &str) {
    if number > 0 {
        add(lines, name, number, meaning);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_what_happened_and_nothing_else() {
        let figures = Figures { events: 1200, passed: 1000, duplicates: 200, ..Figures::default() };
        let text = text(&figures, false);
        assert!(text.contains("1,200") && text.contains("duplicates") && !text.contains("aborted"), "{text}");
    }
}
