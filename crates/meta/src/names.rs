//! Names of nodes and filters: which texts can be names, and which are reserved for filters on their way.
//!
//! This module does not know which names are taken.

use firstseen_routing::RESTORING;
use firstseen_wire::limits::NAME_TEXT_BYTES_MAX;

use crate::refusal::Refusal;

/// Suffix of the name of a former filter: it has its old name with this behind it.
pub const FORMER_SUFFIX: &str = "~former";

/// Returns the name of filter `name` until it has its cells.
pub fn restoring_name(name: &str) -> String {
    format!("{RESTORING}{name}")
}

/// Returns whether a filter of this name waits for its cells.
pub fn is_restoring(name: &str) -> bool {
    name.starts_with(RESTORING)
}

/// Returns whether only the cluster gives such a name: to a filter that is restored or altered.
pub(crate) fn is_reserved(name: &str) -> bool {
    is_restoring(name) || name.ends_with(FORMER_SUFFIX)
}

/// Checks a name or an address: it must be short, and have no control characters.
pub(crate) fn check_text(what: &str, text: &str) -> Result<(), Refusal> {
    let rule = match text {
        "" => "give one",
        text if text.len() > NAME_TEXT_BYTES_MAX => "it is too long",
        text if text.chars().any(char::is_control) => "it must not contain control characters",
        _ => return Ok(()),
    };
    let value = text.chars().filter(|letter| !letter.is_control()).take(40).collect();
    Err(Refusal::Text { what: what.to_owned(), value, rule: rule.to_owned() })
}
