//! Identifies the principal that requested a change, for the audit log. The node that received the request from the
//! client fills in this value, after it has checked that the principal may make the change.

use std::fmt;

use firstseen_routing::Format;
use serde::{Deserialize, Serialize};

/// The first format that can express which principal requested a change.
pub(crate) const FORMAT_OF_WHO_ASKS: Format = Format(11);

/// The principal that requested a change, with the time of the request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedBy {
    /// Name of the principal, or the names in its certificate.
    pub name: String,
    /// Address that the request came from. The string is empty if the address is unknown.
    pub from: String,
    /// Time of the request in milliseconds since 1970, by the clock of the node that received it.
    pub at_ms: u64,
}

impl fmt::Display for AskedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, from, .. } = self;
        f.write_str(name)?;
        if from.is_empty() { Ok(()) } else { write!(f, ", {from}") }
    }
}
