#![no_main]

#[path = "../wire_checks.rs"]
mod wire_checks;

libfuzzer_sys::fuzz_target!(|data: &[u8]| wire_checks::run("frame_decode", data));
