//! What a call needs beside its events.
//!
//! This module must not depend on what is asked.

use std::sync::Arc;

use firstseen_backend::{Filters, Guest, Patience};
use firstseen_routing::Reason;
use tokio::time::Instant;

use crate::confirming::Confirmer;
use crate::counts::DoorCounts;
use crate::rules::Rules;
use crate::sandbox::Sandbox;
use crate::settings::MissingRule;

/// Whom to ask for verdicts, for whom, and by which rules.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) filters: &'a Filters,
    /// How long to wait for verdicts.
    pub(crate) patience: &'a Patience,
    pub(crate) guest: &'a Arc<dyn Guest>,
    pub(crate) counts: &'a DoorCounts,
    pub(crate) sandbox: Option<&'a Sandbox>,
    pub(crate) missing: MissingRule,
    /// Confirms the claims that no client will confirm.
    pub(crate) confirmer: &'a Confirmer,
    pub(crate) rules: &'a Rules,
    /// The node's time of day, in milliseconds since 1970, or the reason why it may not stamp events.
    pub(crate) now_ms: Result<u64, Reason>,
    /// When the call began; leases count from here.
    pub(crate) asked_at: Instant,
}
