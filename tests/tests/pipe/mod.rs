//! Tests of `firstseen pipe` with a real Apache Kafka broker, and with an independent writer and reader.

mod broker;
mod build;
mod case;
mod client;
mod delivery;
mod formats;
mod judge;
mod kafka;
mod kills;
mod members;
mod messages;
mod process;
mod sabotage;
mod state;
mod workload;
