//! Tests of the client against fake nodes. Each test decides how the fake nodes reply, and checks which verdicts and
//! errors the callers of the client receive.

mod answers;
mod common;
mod example;
mod faults;
mod throughput;
