#![no_main]

#[path = "../src/index.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::index(input));
