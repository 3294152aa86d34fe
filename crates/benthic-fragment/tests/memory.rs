//! Objects that would take much memory to decode, run as an OSD would run them. Each is answered or
//! refused, in little memory.
//!
//! This is one test in a binary of its own, because it measures the memory of its process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "shared with other tests")]
mod common;

use benthic_fragment::fragment::{Envelope, Reply, Status, encode, run};
use common::bombs::{
    bitmaps_of_groups, bombs, doubled, file, filtered, first_by_length, first_upper, lengths, nulls,
    one_long_string, plan, properties, quantiles_of_groups, strings, texts_of_groups,
};
use common::{Object, Plan};

const MEMORY_BYTES_MAX: u64 = 160 * 1024 * 1024;

/// Reads `VmHWM` or `VmRSS` of this process.
fn memory_bytes(of: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(of)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn hostile_objects_need_little_memory() {
    let envelope = Envelope::new(encode(&plan()).unwrap()).to_bytes();
    let warm = run(&mut Object(file(strings(1_000, 100), properties()).into()), &envelope).unwrap();
    assert_eq!(warm.status, i32::from(Status::Ok), "{}", warm.message);
    let mut tries: Vec<_> = bombs()
        .into_iter()
        .map(|(name, object, status, why)| (name, object, envelope.clone(), status, why))
        .collect();
    let of = |plan: &Plan| Envelope::new(encode(plan).unwrap()).to_bytes();
    tries.push(("a long string behind a filter", one_long_string(), of(&filtered()), Status::Ok, ""));
    let short = file(strings(8_000, 256), properties());
    tries.push(("a string that is doubled", short, of(&doubled()), Status::Ok, ""));
    let (upper, by_length) = (of(&first_upper()), of(&first_by_length()));
    tries.push(("an order of long strings", one_long_string(), upper, Status::TooLarge, ""));
    tries.push(("an order that keeps long strings", one_long_string(), by_length, Status::TooLarge, ""));
    let groups = file(strings(20_000, 8), properties());
    let quantiles = of(&quantiles_of_groups());
    tries.push(("quantiles of many groups", groups, quantiles, Status::TooLarge, "the reply"));
    let groups = file(strings(1_000, 8), properties());
    tries.push(("bitmaps of many groups", groups, of(&bitmaps_of_groups()), Status::Ok, ""));
    for (name, sets, keys, maxima) in [
        ("a long string in many keys of many sets", 32, 32, 0),
        ("a long string in many keys", 0, 900, 0),
        ("a long string in many maxima", 0, 0, 100),
        ("a long string in many maxima of groups", 0, 1, 100),
    ] {
        let envelope = of(&texts_of_groups(sets, keys, maxima));
        tries.push((name, one_long_string(), envelope, Status::TooLarge, "a row has"));
    }
    let lengths = of(&lengths());
    let long = nulls(&[1, 4_000_000]);
    tries.push(("a list of four million nulls", long, lengths.clone(), Status::TooLarge, "a row has"));
    let longer = nulls(&[5_000_000; 2]);
    tries.push(("lists of too many nulls", longer, lengths.clone(), Status::Unsupported, "too large"));
    let many = nulls(&[300; 10_000]);
    tries.push(("three million nulls in short lists", many, lengths, Status::Ok, ""));
    for (name, object, envelope, status, why) in tries {
        let mut object = Object(object.into());
        std::fs::write("/proc/self/clear_refs", "5").unwrap();
        let before = memory_bytes("VmRSS");
        let Reply { status: found, message, .. } = run(&mut object, &envelope).unwrap();
        let most = memory_bytes("VmHWM").saturating_sub(before);
        assert!(found == i32::from(status) && message.contains(why), "{name}: {message}");
        assert!(most < MEMORY_BYTES_MAX, "{name}: {most} bytes");
    }
}
