//! Wire format between producers and nodes, and among nodes: protobuf messages, compact encodings, limits, and
//! transport security.
//!
//! Decoding a message returns either a checked value, or an error that names the invalid field. Decoding never needs
//! much more memory than the message itself, so a forged message cannot exhaust memory.
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
