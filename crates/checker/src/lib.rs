//! Histories of producers, simulated or real, and the laws that every one of them must keep.
//!
//! Promises: a broken law names the calls that break it. Must not know: how a history was made.
#![warn(missing_docs)]

pub mod claims;
pub mod history;
pub mod laws;
pub mod rights;
