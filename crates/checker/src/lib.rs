//! Histories of producers' calls, and the laws that every history must satisfy. A law is an invariant, for example that
//! only one submission of an event wins. If a history violates a law, the check names the calls that are responsible. A
//! history may come from a simulated or a real cluster, and this crate does not depend on its origin.
#![warn(missing_docs)]

pub mod claims;
pub mod fault_periods;
pub mod history;
pub mod laws;
pub mod rights;
