//! Defines which texts are valid names of nodes and filters. Some names of filters are reserved: a filter that is being
//! restored from a backup, and the predecessor of an altered filter, have names that users cannot choose.

use firstseen_routing::RESTORING;
use firstseen_wire::limits::NAME_TEXT_BYTES_MAX;

use crate::refusal::Refusal;

/// Suffix that is appended to the name of a predecessor, which is a filter that was replaced by an altered one.
pub const FORMER_SUFFIX: &str = "~former";

/// Returns the temporary name of filter `name` until its cells have been restored.
pub fn restoring_name(name: &str) -> String {
    format!("{RESTORING}{name}")
}

/// Returns whether a filter with this name is being restored.
pub fn is_restoring(name: &str) -> bool {
    name.starts_with(RESTORING)
}

/// Returns whether only the cluster assigns such a name. These are the names of filters that are being restored or
/// altered.
pub(crate) fn is_reserved(name: &str) -> bool {
    is_restoring(name) || name.ends_with(FORMER_SUFFIX)
}

/// Checks a name or an address. It must be short and contain no control characters.
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
