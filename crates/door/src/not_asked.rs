//! Why events were not asked about, as what is replied.
//!
//! Promises: codes that clients retry by themselves are none of these. Must not know: commands.

use std::fmt::{self, Display, Formatter};

use firstseen_backend::Refused;
use firstseen_client::FilterError;
use firstseen_routing::Reason;

/// Why nothing was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotAsked {
    /// There is no filter of this name.
    NotFound,
    /// Nobody knows at this time: the rule of the filter says what is replied.
    Undecided(Reason),
    /// It cannot be done, or not by who asks: the error with its code.
    Refused(String),
}

impl NotAsked {
    /// A command that makes no sense for this filter.
    pub(crate) fn wrong(what: impl Display) -> Self {
        Self::Refused(format!("ERR {what}"))
    }
}

impl From<FilterError> for NotAsked {
    fn from(error: FilterError) -> Self {
        match error {
            FilterError::NotFound { .. } => Self::NotFound,
            FilterError::Refused { reason, .. } => Self::Refused(format!("NOPERM {reason}")),
            FilterError::Unreachable { .. } | FilterError::Closed => Self::Undecided(Reason::NotReady),
            error => Self::Refused(format!("ERR {error}")),
        }
    }
}

impl From<Refused> for NotAsked {
    fn from(refused: Refused) -> Self {
        Self::Refused(match refused {
            Refused::Unknown => "NOAUTH Authentication required.".to_owned(),
            Refused::Forbidden(reason) => format!("NOPERM {reason}"),
            Refused::Spent(_) => {
                "UNDECIDED Overloaded: the quota is spent, nothing was recorded: try again later".to_owned()
            }
        })
    }
}

impl Display for NotAsked {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            // What clients of RedisBloom compare with.
            Self::NotFound => f.write_str("ERR not found"),
            Self::Undecided(reason) => write!(f, "UNDECIDED {}", crate::form::said_of(*reason)),
            Self::Refused(text) => f.write_str(text),
        }
    }
}
