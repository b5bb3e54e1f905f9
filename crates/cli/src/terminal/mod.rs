//! A person at a terminal: what is told and asked there, and the wish to stop.
//!
//! Promises: nothing here writes to stdout. Must not know: what a command does.

#[macro_use]
mod tell;

#[cfg(feature = "full")]
pub(crate) mod consent;
pub mod progress;
#[cfg(feature = "full")]
pub(crate) mod signals;
#[cfg(feature = "full")]
pub(crate) mod steps;
pub mod stop;
