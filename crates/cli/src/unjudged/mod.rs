//! Records that cannot be judged: why, how many, and what becomes of them.
//!
//! A record leaves the stream only because an equal one came before it. Whatever cannot be judged is passed on in its place,
//! is not remembered, is counted by its reason, and is named on stderr when the reason first occurs. `--rejected`, `--unjudged`
//! and `--late` change what becomes of it.
//!
//! Promises: [`UnjudgedReason`] is the only list of reasons; a run of which nothing could be judged writes nothing (`gate.rs`).
//! Must not know: filters, formats, where records go.

pub(crate) mod counts;
pub(crate) mod gate;
mod reason;

use clap::ValueEnum;

pub use reason::UnjudgedReason;

/// What to do with a record that cannot be judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum UnjudgedArg {
    /// Pass it on, in its place
    #[default]
    Pass,
    /// Write it nowhere
    Drop,
    /// End the run with exit code 2, before it is written
    Fail,
}

/// What becomes of a record that cannot be judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It goes to the output of first-seen records.
    Passed,
    /// It goes to the file of `--rejected`.
    Rejected,
    /// It goes nowhere.
    Dropped,
}
