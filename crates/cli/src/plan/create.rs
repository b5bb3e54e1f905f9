//! The command that makes the filter which was planned.
//!
//! Promises: `firstseen filter create` with these words makes a filter of the planned definition, a horizontal slice a
//! node; a reader has to change the address of the cluster at most. Must not know: how a filter is made.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use firstseen_filter::{FilterSpec, Window};
use firstseen_routing::{Cut, Slicing, SlicingError};

/// What the filter is called.
const NAME: &str = "planned";
/// The first node of `firstseen up --port 7400`.
const ADDRESS: &str = "127.0.0.1:7400";

/// How the filter survives that slices are down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survives {
    /// By the defaults: the plan has no failures.
    AsUsual,
    /// Every position on them counts as set, so that their events are duplicates, as the rates under failures assume.
    AsDuplicate,
    /// By so many further copies, so that verdicts do not change.
    ByCopies(u32),
}

/// The command that uses a filter of `spec` in one process.
pub(super) fn dedup(spec: &FilterSpec) -> String {
    format!("firstseen dedup{}", filter_flags(spec))
}

/// Flags that ask for `spec`, each after a space.
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

/// The command for a filter of `spec` over so many nodes.
///
/// # Errors
/// More slices than there may be.
pub(super) fn command(spec: &FilterSpec, nodes: NonZeroU32, survives: Survives) -> Result<String, SlicingError> {
    let slicing = match nodes.get() {
        1 => Slicing::NONE,
        // An event visits one node, whatever its kind and window; `filter create` proposes the same.
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
