//! Tests of the wire format: its bytes, its limits, and which peers may talk to each other.

mod batches;
mod common;
mod corpus;
mod examples;
mod frozen;
mod maps;
mod packing;
mod peers;
mod tls;
