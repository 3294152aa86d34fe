#![no_main]

#[path = "../src/policy.rs"]
#[allow(dead_code, reason = "the list of targets is for the tests")]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::policy(input));
