//! The command that makes what was planned.
//!
//! Promises: `firstseen filter create` with these words makes a filter of the planned definition, a horizontal slice a
//! node; the address of the cluster is all that a reader may have to change. Must not know: how a filter is made.

use std::fmt::Write as _;
use std::num::NonZeroU32;

use firstseen_filter::FilterSpec;
use firstseen_routing::{Cut, Slicing, SlicingError};

/// What the filter is called.
const NAME: &str = "planned";
/// The first node of `firstseen up --port 7400`.
const ADDRESS: &str = "127.0.0.1:7400";

/// The command for a filter of `spec` over so many nodes.
///
/// # Errors
/// More slices than there may be.
pub(super) fn command(spec: &FilterSpec, nodes: NonZeroU32, plans_failures: bool) -> Result<String, SlicingError> {
    let slicing = match nodes.get() {
        1 => Slicing::NONE,
        // One visit an event, whatever its kind and window; as `filter create` itself proposes.
        _ => Slicing::new(Cut::Horizontal(nodes))?,
    };
    let mut command = format!(
        "firstseen filter create {NAME} --cluster {ADDRESS} --kind {} --window {} --fpr {}",
        spec.kind, spec.window, spec.rate
    );
    if let Some(capacity) = spec.capacity_events {
        let _ = write!(command, " --capacity {capacity}");
    }
    let _ = write!(command, " --slicing {slicing}");
    if plans_failures {
        // As the rates under failures assume.
        command.push_str(" --when-lost duplicate");
    }
    Ok(command)
}
