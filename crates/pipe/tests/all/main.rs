//! Tests of the pipe without a log: filters against an exact model, and the loop against a simulated log that aborts,
//! forgets to answer, and moves partitions.

mod filters;
mod keys;
mod log;
mod pipes;
