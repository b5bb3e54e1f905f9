//! Production owners of the groups of filters in one process, and what is on its way between them: for experiments, and
//! for tests that decide message by message.
//!
//! Promises: only production decides; what is put on a link stays there, as it is and in order, until the caller takes
//! it; time stands still until the caller lets it pass. Must not know: chance, clocks, threads; what is delivered next,
//! what is lost, what is measured.
#![warn(missing_docs)]

mod climbs;
mod links;
mod mesh;
mod plain;

pub use links::{Link, Order, Seat, Way};
pub use mesh::Mesh;
pub use plain::{ROOT, filter_map, filter_record, node_record, plain_submission, tree_map};
