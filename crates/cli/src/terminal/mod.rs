//! Messages and questions for the user at a terminal, and signals to stop.
//!
//! Promises: nothing here writes to stdout. Must not know: what a command does.

#[macro_use]
mod notice;

#[cfg(feature = "full")]
pub(crate) mod consent;
pub mod progress;
#[cfg(feature = "full")]
pub(crate) mod signals;
#[cfg(feature = "full")]
pub mod steps;
pub mod stop;
