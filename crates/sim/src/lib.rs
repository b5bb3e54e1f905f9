//! The real node and client in a simulated network, where one seed decides everything.
//!
//! Promises: the same seed gives the same trace: the same bytes over the same
//! connections at the same times, and the same history. Must not know: anything of production depends on nothing here.
#![warn(missing_docs)]

pub mod audit;
pub mod cells;
pub mod cluster;
mod moves;
pub mod net;
pub mod producers;
pub mod run;
pub mod scenario;
pub mod trace;
pub mod tree;
