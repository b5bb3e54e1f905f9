//! One slice's answers, its formulas, its bytes: beside exact models, and beside what the pages say.

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
mod decaying;
mod equal_timers;
mod false_positives;
mod growth;
mod hashing;
mod instructions;
mod merge;
mod probes;
mod rates;
mod sampled_fill;
mod snapshot;
mod spec;
mod stable;
mod windows;
