//! Tests that a seed determines everything, that simulated runs keep the laws, and that runs break a law if a rule is
//! broken.

mod broken_times;
mod claims;
mod common;
mod copies;
mod cuckoo;
mod cut_offs;
mod determinism;
mod durable;
mod endpoints;
mod hung_disks;
mod lasting_trees;
mod moves;
mod rights;
mod sample;
mod scale;
mod seeds;
mod sites;
mod standstills;
mod storms;
mod trees;
mod wrong_clocks;
