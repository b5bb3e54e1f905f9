//! The client against nodes that answer as a test says: which verdicts and errors callers get.

mod answers;
mod common;
mod example;
mod faults;
mod throughput;
