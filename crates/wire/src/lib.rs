//! What travels between producers and nodes: protobuf, packing, limits, transport security.
//!
//! Promises: bytes from outside become a checked value or an error that names the field, and never take more memory
//! than their own order of size. Must not know: filters' answers, the cluster's agreement, who calls.
#![warn(missing_docs)]

pub mod access;
pub mod batch;
mod bearer;
mod bits;
pub mod cells;
mod claims;
mod dial;
mod error;
mod examine;
mod frames;
mod handshake;
pub mod hello;
pub mod limits;
mod line;
mod lists;
pub mod map;
mod map_error;
mod mirror;
mod names;
pub mod net;
pub mod packing;
pub mod peer;
mod pem;
pub mod proto;
pub mod reply;
pub mod status;
pub mod tests_of_heads;
pub mod ticks;
pub mod tls;
mod tls_error;
mod tls_files;
pub mod token;
pub mod tree;
pub mod validity;
mod varint;
mod verdicts;
pub mod watch;

pub use error::WireError;
