//! Tests of the Redis protocol: requests that arrive in any pieces, replies as another decoder reads them, and the
//! error texts of Redis.

mod against_peer;
mod common;
mod corpus;
mod grammar;
mod inline;
mod linear;
mod memory;
mod pieces;
mod protocol_errors;
mod refusals;
mod replies;
mod table;
