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

/// What is told of slices that are down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survives {
    /// What a filter tells that is planned without failures.
    AsUsual,
    /// All that they have is a duplicate, as the rates under failures assume.
    AsDuplicate,
    /// The same as ever, by so many further copies.
    ByCopies(u32),
}

/// The command for a filter of `spec` over so many nodes.
///
/// # Errors
/// More slices than there may be.
pub(super) fn command(spec: &FilterSpec, nodes: NonZeroU32, survives: Survives) -> Result<String, SlicingError> {
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
    match survives {
        Survives::AsUsual => {}
        Survives::AsDuplicate => command.push_str(" --when-lost duplicate"),
        Survives::ByCopies(copies) => {
            let _ = write!(command, " --copies {copies}");
        }
    }
    Ok(command)
}
