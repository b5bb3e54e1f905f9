//! Formats a plan as text for users, in lines of at most 80 columns. Numbers are rounded, and only sentences that apply
//! to the given plan are printed.

use std::io::{self, Write};

use firstseen_filter::{Ability, Layout, Window, duration};

use super::Plan;
use super::costs::Costs;
use super::load::Load;
use super::nodes::{Sliced, Spread};
use super::retention::{Measure, Retention, Slack};
use super::traits::WhenFull;
use crate::text::size::ByteSize;

mod compared;
mod machines;

const COLUMNS: usize = 80;
/// Maximum number of nodes that the text recommends. A result with more nodes, each with one slice, is not useful.
const NODES_MAX: u64 = 1024;

pub(super) fn write(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    machines::write(plan, out)?;
    let events = match plan.window {
        Window::Events(_) | Window::LandmarkEvents(_) => String::new(),
        _ => format!("{} events, ", grouped(plan.events_per_window)),
    };
    let load = format!("{events}false positives at most {}", percent(plan.fpr));
    match plan.filters.as_slice() {
        [costs] if plan.references.is_empty() => {
            writeln!(out, "{}, window {}: {load}", costs.kind, costs.window)?;
            one(costs, out)?;
        }
        filters => {
            writeln!(out, "window {}: {load}", plan.window)?;
            compared::write(plan, filters, out)?;
        }
    }
    if let Some(spread) = &plan.spread {
        spread_over_nodes(spread, out)?;
    }
    match &plan.create {
        Some(command) => write_final_command(command, plan, out),
        None => Ok(()),
    }
}

/// Writes the command at the end of the plan, which users can paste into a shell.
fn write_final_command(command: &str, plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    match (&plan.recommended, plan.buy.first()) {
        (Some(_), Some(first)) => {
            writeln!(out, "  On {} machines (--cluster names any of the nodes):", first.machines)?;
        }
        _ => writeln!(out, "  Made by this (--cluster names any of the nodes):")?,
    }
    writeln!(out)?;
    write_wrapped_command(command, out)
}

/// Writes a command with as many flags per line as fit, and with backslashes that join the lines.
fn write_wrapped_command(command: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut flags = command.split(" --");
    let mut line = flags.next().unwrap_or_default().to_owned();
    for flag in flags {
        if line.chars().count() + " --".len() + flag.chars().count() + " \\".len() > COLUMNS {
            writeln!(out, "{line} \\")?;
            line = "   ".to_owned();
        }
        line.push_str(" --");
        line.push_str(flag);
    }
    writeln!(out, "{line}")
}

/// Writes one line with the name and the value of a fact.
fn line(out: &mut dyn Write, name: &str, value: String) -> io::Result<()> {
    writeln!(out, "  {name:<16}{value}")
}

fn one(costs: &Costs, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out)?;
    let layout = match costs.layout {
        Layout::Classic => "classic layout".to_owned(),
        Layout::Buckets { .. } => "two buckets an event".to_owned(),
        Layout::Partitioned => "partitioned layout".to_owned(),
        Layout::Blocked { lines: 1 } => "blocks of 1 cache line".to_owned(),
        Layout::Blocked { lines } => format!("blocks of {lines} cache lines"),
    };
    let cells = grouped(costs.cells);
    let bits = costs.cell_bits;
    match costs.layout {
        Layout::Buckets { .. } => line(out, "fingerprints", format!("room for {cells} of {bits} bits, {layout}"))?,
        _ => {
            line(out, "cells (m)", format!("{cells} of {bits} bit{}, {layout}", plural(bits)))?;
            line(out, "positions (k)", format!("{} an event", costs.hashes))?;
        }
    }
    line(out, "memory", format!("{}, {:.1} bits an event", ByteSize(costs.memory_bytes), costs.bits_per_event))?;
    let worst = percent(costs.rate_worst);
    let mean = percent(costs.rate_mean);
    let rate = if worst == mean { worst } else { format!("{worst} at worst, {mean} on average") };
    line(out, "false positives", rate)?;
    let lost = grouped(costs.false_positives_per_window.round() as u64);
    line(out, "events lost", format!("{lost} of {} new ones", grouped(costs.events_per_window)))?;
    for kept in retention(&costs.retention, &costs.window) {
        line(out, if kept.0 { "kept" } else { "" }, kept.1)?;
    }
    if let Some(lateness_ms) = costs.lateness_ms {
        line(
            out,
            "may come late",
            if lateness_ms == 0 { "not at all".to_owned() } else { format!("by {}", duration(lateness_ms)) },
        )?;
    }
    writeln!(out)?;
    loads(costs, out)
}

/// Returns the lines about the retention. The first line has the title.
fn retention(retention: &Retention, window: &Window) -> Vec<(bool, String)> {
    let (slack, step, how) = match retention {
        Retention::Unbounded => return vec![(true, "for ever".to_owned())],
        Retention::UntilLandmark => return vec![(true, "until the next landmark".to_owned())],
        Retention::Fading => {
            let fading = "until it fades, at random: there are false negatives";
            return vec![(true, fading.to_owned())];
        }
        Retention::Sliding(slack) => (slack, "ticks", "from its first sighting"),
        Retention::Jumping(slack) => (slack, "jumps", "from its first sighting"),
    };
    let first = (true, format!("{window} {how}, {}", beyond(slack)));
    match slack.step {
        1 if slack.measure == Measure::Events => vec![first],
        length => vec![first, (false, format!("({step} of {})", measured(slack.measure, length)))],
    }
}

fn beyond(slack: &Slack) -> String {
    match (slack.beyond_least, slack.beyond_most) {
        (_, 0) => "exactly".to_owned(),
        (0, most) => format!("and up to {} more", measured(slack.measure, most)),
        (least, most) if slack.measure == Measure::Events => {
            format!("and {} to {} more", grouped(least), grouped(most))
        }
        (least, most) => {
            format!("and {} to {} more", measured(slack.measure, least), measured(slack.measure, most))
        }
    }
}

fn measured(measure: Measure, length: u64) -> String {
    match measure {
        Measure::Events => format!("{} event{}", grouped(length), plural(length)),
        Measure::Milliseconds => about(length),
    }
}

/// Returns a duration as text, rounded up so that it takes one or two words.
fn about(length_ms: u64) -> String {
    let step_ms = match length_ms {
        86_400_000.. => 3_600_000,
        3_600_000.. => 60_000,
        60_000.. => 1_000,
        _ => 1,
    };
    duration(length_ms.div_ceil(step_ms).saturating_mul(step_ms))
}

fn loads(costs: &Costs, out: &mut dyn Write) -> io::Result<()> {
    if costs.loads.is_empty() {
        return writeln!(out, "  At more load a window of events spans less time; nothing else changes.");
    }
    writeln!(out, "  {:<8}{:<22}{:<18}if it may grow", "load", "rate if none refused", "refused")?;
    for load in &costs.loads {
        let Load { factor, rate_if_all_recorded, refused_share, grown } = load;
        let refused = match *refused_share {
            0.0 => "none".to_owned(),
            share => format!("{} if new", percent(share)),
        };
        let grown = match grown {
            Some(grown) => format!("{} by {}", ByteSize(grown.memory_bytes), grown.option),
            None if *factor == 1 => "no need".to_owned(),
            None => "it cannot".to_owned(),
        };
        writeln!(out, "  {:<8}{:<22}{refused:<18}{grown}", format!("{factor}x"), percent(*rate_if_all_recorded))?;
    }
    if costs.when_full == WhenFull::Forgets {
        writeln!(out, "  At any load the rate stays; events fade sooner.")
    } else if costs.kind.can(Ability::Grow) {
        writeln!(out, "  A full filter answers `undecided` and records nothing; --growth lets it grow.")
    } else {
        writeln!(out, "  A full filter answers `undecided` and records nothing.")
    }
}

/// Returns the values of a slicing, in the order of the rows of [`spread_over_nodes`]. Rows without a value are left
/// out.
fn spread_column(sliced: &Sliced, spread: &Spread) -> [Option<String>; 9] {
    let on_nodes = sliced.on_nodes.as_ref();
    let copies = u64::from(spread.planned_copies) + 1;
    // Copies keep the verdicts, and therefore the rate.
    let kept_rate = on_nodes.map(|slice| slice.rate_worst).filter(|_| keeps_verdicts(spread));
    [
        on_nodes.map(|slice| ByteSize(slice.memory_bytes_per_node.saturating_mul(copies)).to_string()),
        on_nodes.map(|slice| percent(slice.rate_worst)),
        on_nodes.map(|slice| format!("{:.1}", slice.wire_bits_per_event)),
        on_nodes.and_then(|slice| slice.wire_bits_per_event_blocked).map(|bits| format!("{bits:.1}")),
        on_nodes.map(|slice| format!("{:.2}", slice.visits_new)),
        on_nodes.map(|slice| format!("{:.2}", slice.visits_duplicate)),
        kept_rate.map(percent),
        sliced.rate_under_failures.map(percent),
        sliced.slices_for_failures.map(|nodes| if nodes > NODES_MAX { "too many".to_owned() } else { grouped(nodes) }),
    ]
}

/// Returns whether the printed command asks for copies of the slices because nodes may fail.
fn keeps_verdicts(spread: &Spread) -> bool {
    spread.failures.is_some() && spread.planned_copies > 0
}

fn spread_over_nodes(spread: &Spread, out: &mut dyn Write) -> io::Result<()> {
    let title = match spread.nodes {
        Some(nodes) => format!("on {nodes} node{}, a slice each", plural(nodes.into())),
        None => "in slices".to_owned(),
    };
    writeln!(out)?;
    writeln!(out, "  {title:<44}{:>14}{:>14}", "horizontal", "vertical")?;
    let failures = spread.failures.unwrap_or(0);
    let rate_max = percent(spread.failures_fpr.unwrap_or(0.0));
    let horizontal = spread_column(&spread.horizontal, spread);
    let vertical = spread.vertical.as_ref().map(|sliced| spread_column(sliced, spread)).unwrap_or_default();
    let with_down = format!("false positives with {failures} down");
    let without_copies = format!("{with_down}, no copies");
    let for_failures = format!("nodes for at most {rate_max} with {failures} down");
    let for_failures_without_copies = format!("nodes for {rate_max} with {failures} down, no copies");
    let has_copies = keeps_verdicts(spread);
    let names = [
        if spread.planned_copies > 0 { "memory a node, with copies" } else { "memory a node" },
        "false positives, all nodes up",
        "bits an event on the wire, k positions",
        "bits an event on the wire, block and places",
        "slices visited by a new event",
        "slices visited by a duplicate",
        &with_down,
        if has_copies { &without_copies } else { &with_down },
        if has_copies { &for_failures_without_copies } else { &for_failures },
    ];
    for ((name, horizontal), vertical) in names.into_iter().zip(horizontal).zip(vertical) {
        if let Some(horizontal) = horizontal {
            let vertical = vertical.unwrap_or_else(|| "-".to_owned());
            writeln!(out, "  {name:<44}{horizontal:>14}{vertical:>14}")?;
        }
    }
    if has_copies {
        let copies = spread.planned_copies;
        let copies_text = format!(
            "The command below asks for copies (--copies {copies}), for {} times the memory: with {failures} down, no \
             verdict changes. Without copies, events of what is down would be answered by `duplicate`, which is more \
             than {rate_max} false positives on these nodes.",
            copies + 1
        );
        wrapped(out, &copies_text, 2)?;
    } else if spread.failures.is_some() {
        writeln!(out, "  What is down is answered by `duplicate`: more events lost, none twice.")?;
    }
    match &spread.no_vertical {
        Some(reason) => wrapped(out, reason, 2),
        None => Ok(()),
    }
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// Returns a share as a percentage with three significant digits. A very small share is written with a power of ten.
fn percent(share: f64) -> String {
    let scientific = format!("{:.2e}", share * 100.0);
    match scientific.parse() {
        Ok(0.0) => "0 %".to_owned(),
        Ok(rounded) if rounded >= 0.01 => {
            let decimals = (2.0 - f64::log10(rounded).floor()).max(0.0) as usize;
            format!("{} %", plain(&format!("{rounded:.decimals$}")))
        }
        _ => {
            let share = format!("{share:.2e}");
            let (digits, power) = share.split_once('e').unwrap_or((&share, "0"));
            format!("{}e{power}", plain(digits))
        }
    }
}

/// Removes trailing zeros from a number: `1.00` becomes `1`, and `9.90` becomes `9.9`.
fn plain(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// Writes words in lines of at most [`COLUMNS`], each indented by `indent`.
fn wrapped(out: &mut dyn Write, words: &str, indent: usize) -> io::Result<()> {
    let mut line = String::new();
    for word in words.split(' ') {
        if !line.is_empty() && indent + line.chars().count() + 1 + word.chars().count() > COLUMNS {
            writeln!(out, "{:indent$}{line}", "")?;
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(out, "{:indent$}{line}", "")
}

/// Returns a number with its digits in groups of three.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([grouped(0), grouped(999), grouped(1000), grouped(10_000_000)], ["0", "999", "1,000", "10,000,000"]);
        assert_eq!([59_999, 3_927_279, 86_400_001].map(about), ["59s 999ms", "1h 6m", "1d 1h"]);
        assert_eq!([percent(1.0), percent(0.01), percent(0.000_998)], ["100 %", "1 %", "0.0998 %"]);
        assert_eq!([percent(0.0), percent(1e-9), percent(1e-6), percent(9.95e-7)], ["0 %", "1e-9", "1e-6", "9.95e-7"]);
        assert_eq!([percent(0.009_999_9), percent(0.999_999), percent(0.0999)], ["1 %", "100 %", "9.99 %"]);
    }
}
