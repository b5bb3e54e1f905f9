//! The rules for undecided events and for claims, by filter.
//!
//! This module must not depend on which filters exist.

use std::collections::BTreeMap;

use crate::settings::{ClaimRule, DoorSettings, UndecidedRule};

/// The rules for all filters, and for those that have their own.
pub(crate) struct Rules {
    undecided: UndecidedRule,
    by_filter: BTreeMap<String, (UndecidedRule, ClaimRule)>,
}

impl Rules {
    pub(crate) fn new(settings: &DoorSettings) -> Self {
        let undecided = settings.undecided;
        let rules = settings.filter.iter().map(|of| (of.name.clone(), (of.undecided.unwrap_or(undecided), of.claim)));
        Self { undecided, by_filter: rules.collect() }
    }

    pub(crate) fn undecided(&self, filter: &str) -> UndecidedRule {
        self.by_filter.get(filter).map_or(self.undecided, |(undecided, _)| *undecided)
    }

    pub(crate) fn claim(&self, filter: &str) -> ClaimRule {
        self.by_filter.get(filter).map(|(_, claim)| *claim).unwrap_or_default()
    }

    /// Whether the door confirms the claims of any filter.
    pub(crate) fn has_confirms(&self) -> bool {
        self.by_filter.values().any(|(_, claim)| *claim == ClaimRule::OnExpiryConfirm)
    }
}
