#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| benthic_s3::gateway::fuzzing::document(input));
