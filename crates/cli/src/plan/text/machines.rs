//! Formats the machines that a user needs as text: one line with the recommendation, and then the memory, disk, network
//! and cores of each machine.

use std::io::{self, Write};

use super::{grouped, line, plural, wrapped};
use crate::plan::Plan;
use crate::plan::buy::{Machines, Peak};
use crate::plan::costs::Costs;
use crate::plan::retention::Retention;
use crate::text::size::ByteSize;

/// Writes the machines, which are the first lines of a plan.
pub(super) fn write(plan: &Plan, out: &mut dyn Write) -> io::Result<()> {
    let Some((first, others)) = plan.buy.split_first() else { return Ok(()) };
    let mut answer = if first.is_available() {
        format!("Buy {}, for kind {}.", size(first), plan.buy_kind)
    } else {
        format!(
            "No machine does this: it takes {} cores on each of {}. Spread the filter over more nodes (--nodes), or plan for fewer \
             events in a longer window.",
            grouped(first.cores.into()),
            first.machines
        )
    };
    for other in others.iter().filter(|other| other.is_available()) {
        answer += &format!(" Or {}.", size(other));
    }
    if let Some(smaller) = smaller(plan) {
        answer += &format!(
            " Kind {} takes {} instead of {}, if the slack below is acceptable.",
            smaller.kind,
            ByteSize(smaller.memory_bytes),
            ByteSize(of_kind(plan).map_or(0, |it| it.memory_bytes))
        );
    }
    wrapped(out, &answer, 0)?;
    writeln!(out)?;
    let Machines { machines, copies, cells_bytes, memory_bytes, disk_bytes, durable_disk_bytes, cores, peak } = first;
    let held = match copies {
        0 => "one copy of each slice (--failures plans for more)".to_owned(),
        copies => format!("{} copies of each slice (--copies {copies})", copies + 1),
    };
    line(out, "machines", format!("{machines}, {held}"))?;
    let [memory, cells] = [memory_bytes, cells_bytes].map(|bytes| ByteSize(*bytes));
    line(out, "memory each", format!("{memory}; {cells} for cells and copies (memory_max_bytes)"))?;
    let [disk, durable] = [disk_bytes, durable_disk_bytes].map(|bytes| ByteSize(*bytes));
    line(out, "disk each", format!("{disk}; {durable} with --durability durable"))?;
    if let Some(Peak { events_per_s, bits_per_s }) = peak {
        let events = grouped(*events_per_s);
        let bits = bits_text(*bits_per_s);
        line(out, "network each", format!("{bits} at {events} events/s in all, 4 times the mean"))?;
    }
    line(out, "cores each", grouped((*cores).into()))?;
    writeln!(out)
}

/// Returns the costs of the kind that the machines are planned for.
fn of_kind(plan: &Plan) -> Option<&Costs> {
    plan.filters.iter().find(|costs| costs.kind == plan.buy_kind)
}

/// Returns a kind with the same retention as the planned kind, apart from its slack, that needs at most half of the
/// memory.
fn smaller(plan: &Plan) -> Option<&Costs> {
    let planned = of_kind(plan)?;
    plan.filters.iter().find(|costs| {
        let slides = matches!(costs.retention, Retention::Jumping(_) | Retention::Sliding(_));
        slides && costs.memory_bytes <= planned.memory_bytes / 2
    })
}

/// Returns a text such as `3 machines of 16 GiB and 2 cores (any 1 may fail)`.
fn size(of: &Machines) -> String {
    let Machines { machines, copies, memory_bytes, cores, .. } = of;
    let memory = ByteSize(*memory_bytes);
    let fails = match copies {
        0 => String::new(),
        copies => format!(" (any {copies} may fail)"),
    };
    let s = plural((*machines).into());
    let cores_s = plural((*cores).into());
    format!("{machines} machine{s} of {memory} and {cores} core{cores_s}{fails}")
}

/// Returns a text such as `12 Mbit/s`.
fn bits_text(bits_per_s: u64) -> String {
    let mbit = bits_per_s.div_ceil(1_000_000);
    match mbit {
        0..1000 => format!("{mbit} Mbit/s"),
        _ => format!("{:.1} Gbit/s", mbit as f64 / 1000.0),
    }
}
