//! Formats a comparison of kinds of filters as text for users. Each kind has one line. For the recommended kind, the
//! text also has a command that users can paste into a shell.

use std::io::{self, Write};

use firstseen_filter::duration;

use super::{about, grouped, percent, wrapped, write_wrapped_command};
use crate::plan::Plan;
use crate::plan::costs::Costs;
use crate::plan::recommended::{Recommended, WithLateness};
use crate::plan::retention::{Measure, Retention, Slack};
use crate::plan::traits::{Speed, WhenFull};
use crate::text::size::ByteSize;

/// Writes the comparison, and the recommended kind.
pub(super) fn write(plan: &Plan, filters: &[Costs], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    writeln!(
        out,
        "  {:<12}{:>10}{:>11}{:>13}  {:<13}  {:<9}speed",
        "kind", "memory", "bits/event", "events lost", "kept too long", "full"
    )?;
    for costs in filters {
        writeln!(
            out,
            "  {:<12}{:>10}{:>11.1}{:>13}  {:<13}  {:<9}{}",
            costs.kind.to_string(),
            ByteSize(costs.memory_bytes).to_string(),
            costs.bits_per_event,
            lost(costs.false_positives_per_window),
            too_long(plan, costs),
            match costs.when_full {
                WhenFull::Refuses => "says so",
                WhenFull::Forgets => "fades",
                WhenFull::Never => "never",
            },
            match costs.speed {
                Speed::Fast => "fast",
                Speed::Medium => "medium",
                Speed::Slow => "slow",
            },
        )?;
    }
    for refused in &plan.refused {
        writeln!(out, "  {}:", refused.kind)?;
        wrapped(out, &refused.reason, 4)?;
    }
    if let Some(recommended) = &plan.recommended {
        recommend(recommended, filters, out)?;
    }
    writeln!(out)?;
    writeln!(out, "  for comparison, about")?;
    for reference in &plan.references {
        let bits = reference.bytes_per_event * 8;
        let memory = ByteSize(reference.memory_bytes).to_string();
        writeln!(out, "  {:<22}{:>12}  {bits} bits/event, no event lost", reference.name, memory)?;
    }
    writeln!(out)?;
    let meaning = "Events lost: new ones called duplicates in a window, if all are new. Kept too long: how much longer \
                   than the window an event may be a duplicate. Full: it says so (`undecided`) and records nothing \
                   more. Speed: an event takes one place of memory from afar (fast), up to four, or more (slow).";
    wrapped(out, meaning, 2)?;
    writeln!(out, "  More about one of them: --kind")
}

/// Returns a number of lost events as text. A number below one is given as one event in a number of windows.
fn lost(events: f64) -> String {
    match events {
        0.95.. => grouped(events.round() as u64),
        0.0 => "0".to_owned(),
        _ => format!("{events:.1e}"),
    }
}

fn too_long(plan: &Plan, costs: &Costs) -> String {
    match &costs.retention {
        Retention::Unbounded => "for ever".to_owned(),
        Retention::UntilLandmark if costs.window == plan.window => "to a landmark".to_owned(),
        // Windows of this kind begin and end for all events at the same time, so an event near the end is remembered
        // for a shorter time.
        Retention::UntilLandmark => "or too short".to_owned(),
        Retention::Fading => "at random".to_owned(),
        Retention::Sliding(Slack { beyond_most: 0, .. }) => "not at all".to_owned(),
        Retention::Sliding(Slack { measure: Measure::Events, beyond_most, .. })
        | Retention::Jumping(Slack { measure: Measure::Events, beyond_most, .. }) => {
            format!("<= {}", percent(*beyond_most as f64 / costs.events_per_window as f64))
        }
        Retention::Sliding(slack) | Retention::Jumping(slack) => format!("<= {}", about(slack.beyond_most)),
    }
}

fn recommend(recommended: &Recommended, filters: &[Costs], out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    writeln!(out, "  Recommended: kind {}. In one process:", recommended.kind)?;
    writeln!(out)?;
    write_wrapped_command(&recommended.command, out)?;
    if let Some(WithLateness { lateness_ms, memory_bytes, bits_per_event }) = &recommended.with_lateness {
        let lateness = duration(*lateness_ms);
        let late = format!(
            "Where records come out of order, add --lateness {lateness}, as follows without --kind: {}, \
             {bits_per_event:.1} bits an event.",
            ByteSize(*memory_bytes)
        );
        writeln!(out)?;
        wrapped(out, &late, 2)?;
    }
    let lateness = filters.iter().find(|costs| costs.kind == recommended.kind).and_then(|costs| costs.lateness_ms);
    match lateness.filter(|lateness_ms| *lateness_ms > 0) {
        Some(lateness_ms) => writeln!(out, "\n  Records may come up to {} late.", duration(lateness_ms)),
        None => Ok(()),
    }
}
