//! Errors of commands that were not executed.
//!
//! No error of the Redis endpoint has a code after which Redis clients retry automatically.
//!
//! This module does not depend on commands.

use std::fmt::{self, Display, Formatter};

use firstseen_backend::Refused;
use firstseen_client::FilterError;
use firstseen_routing::Reason;

/// Reason why a command was not executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CommandRejected {
    /// The filter does not exist.
    NotFound,
    /// The event is undecided. The setting of its filter determines the reply.
    Undecided(Reason),
    /// The command is rejected with this error reply, which includes an error code.
    Refused(String),
}

impl CommandRejected {
    /// Creates an error with the code `ERR`.
    pub(crate) fn wrong(what: impl Display) -> Self {
        Self::Refused(format!("ERR {what}"))
    }
}

impl From<FilterError> for CommandRejected {
    fn from(error: FilterError) -> Self {
        match error {
            FilterError::NotFound { .. } => Self::NotFound,
            FilterError::Refused { reason, .. } => Self::Refused(format!("NOPERM {reason}")),
            FilterError::Unreachable { .. } | FilterError::Closed => Self::Undecided(Reason::NotReady),
            error => Self::Refused(format!("ERR {error}")),
        }
    }
}

impl From<Refused> for CommandRejected {
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

impl Display for CommandRejected {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            // RedisBloom clients compare errors with this text.
            Self::NotFound => f.write_str("ERR not found"),
            Self::Undecided(reason) => write!(f, "UNDECIDED {}", crate::reply_shape::reason_text(*reason)),
            Self::Refused(text) => f.write_str(text),
        }
    }
}
