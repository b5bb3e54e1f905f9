//! Runs the real node and client in a simulated network, in which one seed determines everything.
//!
//! Two runs with the same seed have the same trace and the same history. The same trace means that the same bytes are
//! delivered over the same connections at the same times, so a failure that a seed has found can be repeated. No
//! production code depends on this crate.
#![warn(missing_docs)]

mod access;
mod acted_on;
pub mod alteration;
pub mod alterations;
mod altered_claims;
pub mod audit;
mod bits;
pub mod cells;
mod claims;
pub mod clock;
pub mod cluster;
mod cut_off;
pub mod endpoint_use;
mod endpoints;
pub mod family;
mod fault_injector;
pub mod faults;
mod full_disk;
mod holdings;
mod kind_name;
mod kinds;
mod map_checks;
mod moves;
pub mod net;
mod operator;
mod principals;
pub mod producers;
mod real_time;
mod redis_clients;
mod rights;
pub mod run;
pub mod scale;
pub mod scenario;
pub mod seeded_rng;
mod shared_history;
mod standstills;
mod storm;
pub mod trace;
pub mod tree;
pub mod views;
mod workload;
mod wrong_clocks;
