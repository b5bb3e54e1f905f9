//! What it takes to ask for verdicts.
//!
//! Must not know: what is asked.

use std::sync::Arc;

use firstseen_backend::{Filters, Guest, Patience};
use firstseen_routing::Reason;
use tokio::time::Instant;

use crate::confirming::Confirmer;
use crate::counts::DoorCounts;
use crate::rules::Rules;
use crate::sandbox::Sandbox;
use crate::settings::MissingRule;

/// How verdicts are asked for, and what is said where there are none.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'a> {
    pub(crate) filters: &'a Filters,
    /// How long they are waited for.
    pub(crate) patience: &'a Patience,
    pub(crate) guest: &'a Arc<dyn Guest>,
    pub(crate) counts: &'a DoorCounts,
    pub(crate) sandbox: Option<&'a Sandbox>,
    pub(crate) missing: MissingRule,
    /// Where claims wait that nobody will confirm.
    pub(crate) confirmer: &'a Confirmer,
    pub(crate) rules: &'a Rules,
    /// The node's time of day, in milliseconds since 1970, or the reason why it may not stamp events.
    pub(crate) now_ms: Result<u64, Reason>,
    /// Since when they are waited for: leases are counted from here.
    pub(crate) asked_at: Instant,
}
