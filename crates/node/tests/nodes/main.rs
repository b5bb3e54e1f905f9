//! Nodes in this process, on real sockets. One binary, since building one takes longer than running it.

mod bad_frames;
mod bad_producers;
mod common;
mod connections;
mod durable;
mod failures;
mod full_disk;
mod hops;
mod hung_disk;
mod identity;
mod lost_node;
mod lost_owner;
mod mismatches;
mod one_node;
mod one_winner;
mod refusals;
mod retries;
mod roles;
mod same_answers;
mod services;
mod stop_and_metrics;
mod strangers;
mod three_nodes;
mod tree;
mod vertical_batches;
mod wire_cost;
