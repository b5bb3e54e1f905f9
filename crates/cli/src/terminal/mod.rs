//! Messages and questions for a user at a terminal, and the signals that stop a command. Messages and questions go to
//! stderr and never to standard output, which may be piped to another program.

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
