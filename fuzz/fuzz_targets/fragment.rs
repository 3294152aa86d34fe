#![no_main]

#[path = "../../crates/benthic-fragment/tests/common/mod.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod common;
#[path = "../src/fragment.rs"]
#[allow(dead_code, reason = "two targets")]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::fragment(input));
