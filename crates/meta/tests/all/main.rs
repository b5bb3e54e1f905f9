//! What a cluster agrees on: nodes in one process over real connections, and bytes from outside.

mod cluster;
mod corpus;
