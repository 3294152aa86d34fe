#![no_main]

#[path = "../src/module.rs"]
#[allow(dead_code, reason = "two targets")]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::module(input));
