//! The binary `firstseen` from outside: what users type, what they get back.

mod accuracy;
mod bad_flags;
mod bad_input;
mod certs;
mod cluster;
mod crash_loop;
mod estimate;
mod formats;
mod help;
mod keys;
mod late;
mod live;
mod local_cluster;
mod memory;
mod mistaken_settings;
mod node;
mod outputs;
mod report;
mod run;
mod slicing;
mod state;
mod terminal;
mod tree;
mod up;
mod windows;
