//! The definition of a decaying filter, which must match when a saved filter is loaded.

use firstseen_filter::{CounterStorage, DecayRule, DecayingShape, Window};
use serde::{Deserialize, Serialize};

use crate::report::describe::clock_flag;
use crate::state::Definition;

/// Settings that a saved filter was built from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecayingDefinition {
    pub(super) shape: DecayingShape,
    pub(super) epoch: Window,
    pub(super) future_max_ms: u64,
}

impl Definition for DecayingDefinition {
    fn describe(&self) -> String {
        let DecayingShape { cells, hashes, rule, storage } = self.shape;
        let rule = match rule {
            DecayRule::Literal { lambda } => format!("literal, lambda {lambda}"),
            DecayRule::Lasting { lambda, fraction_bits } => format!("lambda {lambda}, {fraction_bits} fractional bits"),
        };
        let storage = match storage {
            CounterStorage::Basic => "basic",
            CounterStorage::Extended { .. } => "extended",
        };
        format!("decaying, m {cells}, k {hashes}, {rule}, {storage} counters, epochs of {}", self.epoch)
    }

    fn flags(&self) -> Vec<(&'static str, String)> {
        let clock = clock_flag(&self.epoch, self.future_max_ms);
        vec![("--epoch", self.epoch.to_string()), ("--lambda", self.shape.rule.lambda().to_string()), clock]
    }
}
