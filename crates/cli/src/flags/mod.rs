//! Flags that several commands share.
//!
//! Promises: values of flags are checked before anything is read or written. Must not know: what a command does.

#[cfg(feature = "full")]
mod credentials;
pub mod filter;
pub mod input;
mod names;
pub mod run;
pub mod tls;
