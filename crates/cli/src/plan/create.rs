//! Writes the command that creates the planned filter in a cluster. The command is `firstseen filter create` with flags
//! for the same definition, and with one horizontal slice per node. A user can paste the command into a shell after
//! replacing the address of the cluster.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use firstseen_filter::{FilterSpec, Window};
use firstseen_routing::{Cut, Slicing, SlicingError};

/// Name of the filter in the command.
const NAME: &str = "planned";
/// Address of the first node of `firstseen up --port 7400`.
const ADDRESS: &str = "127.0.0.1:7400";

/// How the filter continues when slices are down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survives {
    /// The filter uses the defaults, because the plan contains no failures.
    AsUsual,
    /// All positions on slices that are down count as set, so their events are reported as duplicates. The rates under
    /// failures assume this.
    AsDuplicate,
    /// The filter has this number of further copies of each slice, so verdicts do not change.
    ByCopies(u32),
}

/// Returns the command that uses a filter of `spec` in one process.
pub(super) fn dedup(spec: &FilterSpec) -> String {
    format!("firstseen dedup{}", filter_flags(spec))
}

/// Returns the flags that ask for `spec`, each after a space.
fn filter_flags(spec: &FilterSpec) -> String {
    let rate = if spec.rate < 1e-4 { format!("{:e}", spec.rate) } else { spec.rate.to_string() };
    let mut flags = format!(" --kind {} --window {} --fpr {rate}", spec.kind, spec.window);
    if let Some(capacity) = spec.capacity_events {
        let _ = write!(flags, " --capacity {capacity}");
    }
    if let Some(lateness_ms) = spec.lateness_ms {
        let _ = write!(flags, " --lateness {}", Window::Duration(lateness_ms));
    }
    if let Some(ticks) = spec.ticks {
        let _ = write!(flags, " --ticks {ticks}");
    }
    flags
}

/// Returns the command that creates a filter of `spec` over `nodes` nodes.
///
/// # Errors
/// Returns an error if the filter would have more slices than allowed.
pub(super) fn command(spec: &FilterSpec, nodes: NonZeroU32, survives: Survives) -> Result<String, SlicingError> {
    let slicing = match nodes.get() {
        1 => Slicing::NONE,
        // With horizontal slices, an event visits only one node, whatever its kind and window. `filter create` has the
        // same default.
        _ => Slicing::new(Cut::Horizontal(nodes))?,
    };
    let mut command = format!("firstseen filter create {NAME} --cluster {ADDRESS}{}", filter_flags(spec));
    let _ = write!(command, " --slicing {slicing}");
    match survives {
        Survives::AsUsual => {}
        Survives::AsDuplicate => command.push_str(" --when-lost duplicate"),
        Survives::ByCopies(copies) => {
            let _ = write!(command, " --copies {copies}");
        }
    }
    Ok(command)
}
