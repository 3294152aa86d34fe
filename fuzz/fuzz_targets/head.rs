#![no_main]

#[path = "../src/head.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::head(input));
