//! Records that cannot be judged: why, how many there are, and what happens to them.
//!
//! A run drops a record only if an equal record came before it. A record that cannot be judged is therefore passed on
//! at its place in the output, and the filter does not remember it. The run counts such records by reason, and reports
//! the first record of each reason on stderr. The flags `--rejected`, `--unjudged` and `--late` change what happens to
//! these records.
//!
//! [`UnjudgedReason`] is the only list of reasons. A run that could not judge any record writes nothing (`gate.rs`).
//! This module does not depend on filters, formats or where records go.

pub(crate) mod counts;
pub(crate) mod gate;
pub(crate) mod reason;

use clap::ValueEnum;

pub use reason::UnjudgedReason;

/// What to do with a record that cannot be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UnjudgedArg {
    /// Pass the record on, in its place
    #[default]
    Pass,
    /// Do not write the record
    Drop,
    /// End the run with exit code 2 before the record is written
    Fail,
}

/// What happens to a record that cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// The record goes to the output of first-seen records.
    Passed,
    /// The record goes to the file of `--rejected`.
    Rejected,
    /// The record is not written.
    Dropped,
}
