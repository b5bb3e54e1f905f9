//! Requests in any pieces, replies beside another decoder, and Redis' texts.

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
