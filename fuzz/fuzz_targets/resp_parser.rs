#![no_main]

#[path = "../resp_checks.rs"]
mod resp_checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| resp_checks::run("resp_parser", data));
