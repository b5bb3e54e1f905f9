//! Checks of rules that the sources and pages of this repository follow.

mod chance;
mod circles;
mod client_crates;
mod dependencies;
mod figures;
mod folds;
mod generated;
mod map;
mod pages;
mod rooms;
mod sizes;
mod test_binaries;
mod types;
