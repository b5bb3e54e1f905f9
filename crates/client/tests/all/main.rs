//! The client against nodes that answer as a test says: what callers are told.

mod answers;
mod common;
mod example;
mod faults;
mod throughput;
