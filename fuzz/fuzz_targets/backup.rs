#![no_main]

#[path = "../agreed_checks.rs"]
mod agreed_checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| agreed_checks::run("backup", data));
