//! Tests of the consensus with several nodes in one process and real connections, and of bytes from untrusted sources.

mod cluster;
mod corpus;
