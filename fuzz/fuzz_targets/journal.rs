#![no_main]

#[path = "../journal_checks.rs"]
mod journal_checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| journal_checks::run(data));
