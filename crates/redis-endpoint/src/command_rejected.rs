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

    /// Returns the same error, with the name that the client sent if its filter does not exist.
    ///
    /// Errors of `BF.*` commands stay as they are, because RedisBloom clients compare them with the text
    /// `ERR not found`.
    pub(crate) fn naming(&self, filter: &[u8]) -> Self {
        match self {
            Self::NotFound => Self::wrong(format_args!(
                "filter `{}` not found: correct the name, or create the filter with firstseen filter create",
                shown(filter)
            )),
            error => error.clone(),
        }
    }

    /// Creates the error for a key that no prefix maps to a filter. The error names the beginning of the key, which the
    /// client has sent itself, and no prefix of the configuration.
    pub(crate) fn unmapped(key: &[u8]) -> Self {
        let prefix = key.iter().position(|byte| *byte == b':').map_or(key, |colon| &key[..=colon]);
        Self::wrong(format_args!(
            "no filter is mapped to this key: no [[redis.prefix]] in the node's configuration matches `{}`; correct the key, or map \
             its prefix to a filter",
            shown(prefix)
        ))
    }
}

/// Maximum number of characters of a name or a key in an error.
const SHOWN_CHARS_MAX: usize = 64;

/// Returns the beginning of a text that a client has sent, without control characters.
fn shown(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().filter(|letter| !letter.is_control()).take(SHOWN_CHARS_MAX).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn unmapped(key: &[u8]) -> String {
        CommandRejected::unmapped(key).to_string()
    }

    #[test]
    fn errors_name_what_the_client_has_sent_and_no_more() {
        assert!(unmapped(b"klicks:1").contains("matches `klicks:`;"), "{}", unmapped(b"klicks:1"));
        assert!(unmapped(b"a\r\n+OK").contains("matches `a+OK`;"), "{}", unmapped(b"a\r\n+OK"));
        assert!(unmapped(&[b'k'; 1000]).len() < 300);
        let missing = CommandRejected::NotFound.naming(b"clikcs").to_string();
        assert!(missing.starts_with("ERR filter `clikcs` not found: ") && missing.contains("firstseen filter create"));
        assert_eq!(CommandRejected::NotFound.to_string(), "ERR not found");
        let other = CommandRejected::wrong("x");
        assert_eq!(other.naming(b"clikcs"), other);
    }
}
