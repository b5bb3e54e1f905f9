//! Integration tests of a single slice. They compare its answers, its formulas and its bytes with exact models and with
//! the documentation pages.

mod broken_times;
mod bursts;
mod clocks;
mod common;
mod corpus;
mod counting;
mod cuckoo;
mod cuckoo_bytes;
mod cuckoo_copies;
mod cuckoo_model;
mod cuckoo_regions;
mod cuckoo_sizes;
mod cuckoo_twins;
mod decaying;
mod equal_timers;
mod false_positives;
mod far_apart;
mod figures;
mod growth;
mod hashing;
mod instructions;
mod kinds;
mod merge;
mod probes;
mod rates;
mod sampled_fill;
mod snapshot;
mod spec;
mod stable;
mod ttl;
mod windows;
