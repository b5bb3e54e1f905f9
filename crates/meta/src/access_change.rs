//! A change of who may do what, as it is proposed.
//!
//! Promises: plain data that says the same on every node. Must not know: what becomes of it.

use firstseen_routing::Grant;
use serde::{Deserialize, Serialize};

/// A change of who may do what.
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
    /// Whether callers need rights.
    Enable {
        /// Whether they do.
        is_enabled: bool,
    },
}

impl AccessChange {
    /// Whether the change takes more room and can wait.
    pub(crate) fn can_wait(&self) -> bool {
        matches!(self, Self::Grant { .. })
    }

    /// The name of the change in logs.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Grant { .. } => "grant",
            Self::Revoke { .. } => "revoke",
            Self::Enable { is_enabled: true } => "enable-access",
            Self::Enable { is_enabled: false } => "disable-access",
        }
    }

    /// What the change is about, for people.
    pub(crate) fn subject(&self) -> String {
        match self {
            Self::Grant { principal, grants } | Self::Revoke { principal, grants } => {
                let rights: Vec<String> = grants.iter().map(ToString::to_string).collect();
                format!("{principal}: {}", if rights.is_empty() { "everything".to_owned() } else { rights.join(", ") })
            }
            Self::Enable { .. } => String::new(),
        }
    }
}
