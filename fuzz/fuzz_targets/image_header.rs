#![no_main]

#[path = "../src/image.rs"]
#[allow(dead_code, reason = "three targets")]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::image_header(input));
