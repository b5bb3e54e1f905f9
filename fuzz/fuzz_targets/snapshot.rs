#![no_main]

#[path = "../snapshot_checks.rs"]
mod snapshot_checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| snapshot_checks::run(data));
