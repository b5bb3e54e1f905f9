//! A log that the caller has read.
//!
//! Promises: it holds only what the caller has put in. Must not know: files, formats.

/// Events that really occurred, in the order of their arrival.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Its name in pictures.
    pub name: String,
    /// The key of each event: equal keys are repeats of one event.
    pub keys: Vec<u64>,
    /// The client that sent each event; as many as keys, or none where that is not known.
    pub clients: Vec<u64>,
}
