//! Changes of access rights that can be proposed to the cluster, for example to grant a right to a principal. A change
//! is plain data and has the same meaning on every node. How a change is applied is defined by another module,
//! `access`.

use std::fmt::Display;

use firstseen_routing::{FilterNames, FiltersQuota, Grant, Quota, TokenId, TokenRecord};
use serde::{Deserialize, Serialize};

/// A change of access rights. All variants were introduced with format 11.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessChange {
    /// Grants additional rights to a principal. The principal is created if it does not exist.
    Grant {
        /// Name of the principal.
        principal: String,
        /// The rights.
        grants: Vec<Grant>,
    },
    /// Revokes rights of a principal. A principal without any rights is removed.
    Revoke {
        /// Name of the principal.
        principal: String,
        /// The rights. An empty list means all rights of the principal.
        grants: Vec<Grant>,
    },
    /// Sets the quota of a principal. Amounts that the quota does not mention are unlimited.
    Limit {
        /// Name of the principal.
        principal: String,
        /// The new quota, which replaces the previous one.
        quota: Quota,
    },
    /// Sets whether callers need rights.
    Enable {
        /// Whether callers need rights.
        is_enabled: bool,
    },
    /// Adds a token that identifies a principal.
    AddToken {
        /// Name of the principal.
        principal: String,
        /// Identifier of the token.
        id: TokenId,
        /// The stored record of the token.
        token: TokenRecord,
        /// Time of the request, in seconds since 1970. Tokens that have expired by this time are removed.
        now_s: u64,
    },
    /// Removes a token, so that it is no longer valid.
    RemoveToken {
        /// The token.
        id: TokenId,
    },
    /// Limits how much the filters with certain names may use together. Amounts that the quota does not mention are
    /// unlimited.
    LimitFilters {
        /// Pattern of the names.
        names: FilterNames,
        /// The new quota, which replaces the previous one.
        quota: FiltersQuota,
    },
}

impl AccessChange {
    /// Returns whether the change needs additional disk space and can be postponed.
    pub(crate) fn can_wait(&self) -> bool {
        matches!(self, Self::Grant { .. } | Self::AddToken { .. })
    }

    /// Returns the name of the change in logs.
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

    /// Returns the subject of the change as text.
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
