//! Fuzzes object listings: arbitrary continuation tokens, prefixes and namespaces.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| benthic_fuzz::listing(input));
