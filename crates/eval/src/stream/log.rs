//! A log that somebody has read.
//!
//! Promises: nothing but what it was given. Must not know: files, formats.

/// Events that really occurred, in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// What it is called in pictures.
    pub name: String,
    /// What each event is: equal keys are repeats of one event.
    pub keys: Vec<u64>,
    /// Who sent each event; as many as keys, or none where that is not known.
    pub clients: Vec<u64>,
}
