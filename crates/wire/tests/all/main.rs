//! What travels: its bytes, its limits, who may speak to whom.

mod batches;
mod common;
mod corpus;
mod examples;
mod frozen;
mod maps;
mod packing;
mod peers;
mod tls;
