//! The kind that a comparison recommends, and the command that uses it.
//!
//! Promises: the kind that `dedup` chooses where no flag names one, with the figures of its row. Must not know: how it
//! is printed.

use firstseen_filter::{FilterSpec, Kind, Lateness, SpecError};
use serde::Serialize;

use super::costs::Costs;
use super::create;
use crate::kind::lateness_default_ms;

/// A kind to use.
#[derive(Debug, Serialize)]
pub(super) struct Recommended {
    pub(super) kind: Kind,
    /// The command that uses it in one process.
    pub(super) command: String,
    /// The same where records may come late, if that takes more memory.
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
        // As many ticks as were asked for may leave no room for it.
        Self { kind: spec.kind, command: create::dedup(spec), with_lateness: late.and_then(Result::ok) }
    }
}

fn with_lateness(spec: &FilterSpec, lateness_ms: u64) -> Result<WithLateness, SpecError> {
    let costs = Costs::of(&FilterSpec { lateness_ms: Some(lateness_ms), ..spec.clone() })?;
    Ok(WithLateness { lateness_ms, memory_bytes: costs.memory_bytes, bits_per_event: costs.bits_per_event })
}
