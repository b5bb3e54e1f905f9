//! The kind of filter that a comparison of kinds recommends, and the command that builds such a filter. The recommended
//! kind is the same that `dedup` chooses if no flag names a kind. Its numbers are equal to those in its row of the
//! comparison.

use firstseen_embedded::lateness_default_ms;
use firstseen_filter::{FilterSpec, Kind, Lateness, SpecError};
use serde::Serialize;

use super::costs::Costs;
use super::create;

/// The recommended kind.
#[derive(Debug, Serialize)]
pub(super) struct Recommended {
    pub(super) kind: Kind,
    /// Command that uses the kind in one process.
    pub(super) command: String,
    /// The same filter for records that may come late, if lateness needs more memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) with_lateness: Option<WithLateness>,
}

/// A filter for records that come late.
#[derive(Debug, Serialize)]
pub(super) struct WithLateness {
    pub(super) lateness_ms: u64,
    pub(super) memory_bytes: u64,
    pub(super) bits_per_event: f64,
}

impl Recommended {
    /// Recommends the filter of `spec`.
    pub(super) fn of(spec: &FilterSpec) -> Self {
        let lateness_ms = match (spec.kind.properties().lateness, spec.lateness_ms) {
            (Lateness::TakesMemory, None) => lateness_default_ms(&spec.window),
            _ => None,
        };
        let late = lateness_ms.map(|lateness_ms| with_lateness(spec, lateness_ms));
        // If the user asked for a number of ticks, the filter may have no room for lateness. The entry is then left
        // out.
        Self { kind: spec.kind, command: create::dedup(spec), with_lateness: late.and_then(Result::ok) }
    }
}

fn with_lateness(spec: &FilterSpec, lateness_ms: u64) -> Result<WithLateness, SpecError> {
    let costs = Costs::of(&FilterSpec { lateness_ms: Some(lateness_ms), ..spec.clone() })?;
    Ok(WithLateness { lateness_ms, memory_bytes: costs.memory_bytes, bits_per_event: costs.bits_per_event })
}
