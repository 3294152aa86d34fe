#![no_main]

#[path = "../src/array.rs"]
#[allow(dead_code, reason = "six targets")]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::array_metadata(input));
