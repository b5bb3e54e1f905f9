//! Flags that several commands share. The value of a flag is checked while the command line is parsed, so a wrong value
//! is reported before any file is read or written.

#[cfg(feature = "full")]
mod credentials;
pub mod filter;
pub mod input;
pub(crate) mod names;
pub mod run;
pub mod tls;
