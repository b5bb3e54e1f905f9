//! A change of who may do what, as it is proposed.
//!
//! Promises: plain data that says the same on every node. Must not know: what becomes of it.

use std::fmt::Display;

use firstseen_routing::{FilterNames, FiltersQuota, Grant, Quota, TokenId, TokenRecord};
use serde::{Deserialize, Serialize};

/// A change of who may do what. All of them came with format 11.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessChange {
    /// A principal gets rights, beside those it has. One that is not there is made.
    Grant {
        /// Its name.
        principal: String,
        /// The rights.
        grants: Vec<Grant>,
    },
    /// A principal has rights no more; one without any is gone.
    Revoke {
        /// Its name.
        principal: String,
        /// The rights; none of them means all that it has.
        grants: Vec<Grant>,
    },
    /// How much a principal may ask; nothing of it is bounded where the quota says nothing.
    Limit {
        /// Its name.
        principal: String,
        /// The quota, in the place of the one before.
        quota: Quota,
    },
    /// Whether callers need rights.
    Enable {
        /// Whether they do.
        is_enabled: bool,
    },
    /// A principal may show a token from now on.
    AddToken {
        /// Its name.
        principal: String,
        /// The token.
        id: TokenId,
        /// What is kept of it.
        token: TokenRecord,
        /// When that was asked, in seconds since 1970: tokens that have expired by then are forgotten.
        now_s: u64,
    },
    /// A token is good for nothing from now on.
    RemoveToken {
        /// The token.
        id: TokenId,
    },
    /// How much the filters of some names may take together; nothing of it is bounded where the quota says nothing.
    LimitFilters {
        /// Their names.
        names: FilterNames,
        /// The quota, in the place of the one before.
        quota: FiltersQuota,
    },
}

impl AccessChange {
    /// Whether the change takes more room and can wait.
    pub(crate) fn can_wait(&self) -> bool {
        matches!(self, Self::Grant { .. } | Self::AddToken { .. })
    }

    /// The name of the change in logs.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Grant { .. } => "grant",
            Self::Revoke { .. } => "revoke",
            Self::Limit { .. } => "limit",
            Self::Enable { is_enabled: true } => "enable-access",
            Self::Enable { is_enabled: false } => "disable-access",
            Self::AddToken { .. } => "add-token",
            Self::RemoveToken { .. } => "remove-token",
            Self::LimitFilters { .. } => "limit-filters",
        }
    }

    /// What the change is about, for people.
    pub(crate) fn subject(&self) -> String {
        match self {
            Self::Grant { principal, grants } | Self::Revoke { principal, grants } => {
                let rights: Vec<String> = grants.iter().map(ToString::to_string).collect();
                format!("{principal}: {}", if rights.is_empty() { "everything".to_owned() } else { rights.join(", ") })
            }
            Self::Limit { principal, quota } => {
                let events = limit(quota.events_per_s);
                let batches = limit(quota.inflight_batches);
                format!("{principal}: {events} events a second, {batches} batches in flight")
            }
            Self::Enable { .. } => String::new(),
            Self::AddToken { principal, id, token, .. } => match token.expires_s {
                Some(expires_s) => format!("{principal}: {id}, until {expires_s} s"),
                None => format!("{principal}: {id}, for ever"),
            },
            Self::RemoveToken { id } => id.to_string(),
            Self::LimitFilters { names, quota: FiltersQuota { filters, cell_bytes } } => {
                format!("{names}: {} filters, {} bytes of cells", limit(*filters), limit(*cell_bytes))
            }
        }
    }
}

/// Returns the text of a limit.
fn limit(most: Option<impl Display>) -> String {
    most.map_or_else(|| "any".to_owned(), |most| most.to_string())
}
