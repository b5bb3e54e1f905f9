//! Who has asked for a change.
//!
//! Promises: plain data, as the node that was asked has it. Must not know: whether they may.

use std::fmt;

use firstseen_routing::Format;
use serde::{Deserialize, Serialize};

/// The first format that can say who has asked for a change.
pub(crate) const FORMAT_OF_WHO_ASKS: Format = Format(11);

/// Who has asked for a change, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AskedBy {
    /// Its principal, or the names in its certificate.
    pub name: String,
    /// The address that it called from; empty where that is not known.
    pub from: String,
    /// Milliseconds since 1970, by the clock of the node that was asked.
    pub at_ms: u64,
}

impl fmt::Display for AskedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, from, .. } = self;
        f.write_str(name)?;
        if from.is_empty() { Ok(()) } else { write!(f, ", {from}") }
    }
}
