//! Numbers, sizes, bars, long lines and tables as people read and write them.
//!
//! Promises: the same value gives the same text. Must not know: what a value means.

#[cfg(feature = "full")]
pub(crate) mod hex;
pub mod lines;
pub(crate) mod look;
pub mod numbers;
pub mod size;
#[cfg(feature = "full")]
pub mod table;
