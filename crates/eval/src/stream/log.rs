//! A log that the caller has read.
//!
//! The log contains only what the caller has added.
//!
//! This module does not depend on files or formats.

/// Real events, in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Name of the log in pictures.
    pub name: String,
    /// Key of each event. Equal keys are repeats of one event.
    pub keys: Vec<u64>,
    /// Client that sent each event. The list has the same length as `keys`, or is empty if the clients are not known.
    pub clients: Vec<u64>,
}
