//! Tests of `firstseen pipe` with a real Apache Kafka broker, and with an independent writer and reader.

mod broker;
mod build;
mod client;
mod kafka;
