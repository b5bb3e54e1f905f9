#![no_main]

#[path = "../state_checks.rs"]
mod state_checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| state_checks::run(data));
