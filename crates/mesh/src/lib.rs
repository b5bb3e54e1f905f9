//! Runs slice groups of many nodes in one process. The owners of the slice groups are production code, and only the
//! links between them are simulated. Experiments and tests use this crate to control the delivery of each message.
//!
//! # Guarantees
//!
//! - All decisions are made by production code.
//! - A message on a link stays there, unchanged and in order, until the caller takes it.
//! - Time advances only when the caller says so.
//!
//! This crate does not use randomness, clocks or threads. The caller decides which message is delivered next and which
//! message is lost, so every run can be repeated exactly.
#![warn(missing_docs)]

mod level_queries;
mod links;
mod mesh;
mod plain;

pub use links::{GroupInstance, Link, Order, Way};
pub use mesh::Mesh;
pub use plain::{ROOT, filter_map, filter_record, node_record, plain_submission, tree_map};
