//! Objects and plans with damaged bytes, run as the class runs them. The class catches panics, so
//! the tests check that nothing aborts, loops for ever or uses much memory.

#[path = "../../../../fuzz/src/fragment.rs"]
mod targets;

use crate::common::{self, Numbers};
use benthic_fragment::fragment::encode;
use std::fs;
use std::path::Path;

/// Changes a few of the bytes, or cuts a part out.
fn damaged(bytes: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len() as u64) as usize;
        match numbers.below(8) {
            0 => bytes[at] = 0xff,
            1 => bytes[at] = bytes[at].wrapping_add(1),
            2 => drop(bytes.drain(at..(at + numbers.below(64) as usize + 1).min(bytes.len()))),
            _ => bytes[at] ^= 1 << numbers.below(8),
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

fn rounds() -> usize {
    if std::env::var_os("BENTHIC_TEST_LONG").is_some() { 200_000 } else { 4_000 }
}

#[test]
fn damaged_objects_are_answered_or_refused() {
    let mut numbers = Numbers(1);
    let whole = common::lineitem_of(200).parquet;
    let footer = whole.len() - 4 - 4_000;
    for _ in 0..rounds() {
        targets::parquet(&damaged(&whole, &mut numbers));
        // Damages the footer separately: it is small, and the decoder relies on it most.
        let tail = damaged(&whole[footer..whole.len() - 8], &mut numbers);
        targets::parquet(&[&whole[..footer], &tail, &whole[whole.len() - 8..]].concat());
    }
}

/// Levels that lie about the lengths of lists, and other leaves than their neighbours'.
#[test]
fn damaged_lists_are_answered_or_refused() {
    let mut numbers = Numbers(3);
    let whole = common::events::parquet(&common::events::batch(&common::events::events()[..200]));
    for _ in 0..rounds() / 4 {
        targets::parquet(&damaged(&whole, &mut numbers));
    }
}

#[test]
fn damaged_plans_are_answered_or_refused() {
    let mut numbers = Numbers(2);
    let plans =
        [common::q1(), common::q6(), common::point(7), common::bombs::plan()].map(|plan| (plan, rounds()));
    let others = [
        (common::events::plan(), rounds() / 4),
        (common::filters(), rounds() / 4),
        (common::rollup(), rounds() / 8),
        (common::bombs::first_upper(), rounds() / 8),
        (common::bombs::quantiles_of_groups(), rounds() / 8),
    ];
    for (plan, rounds) in plans.into_iter().chain(others) {
        let plan = encode(&plan).unwrap();
        for _ in 0..rounds {
            targets::fragment(&damaged(&plan, &mut numbers));
        }
    }
}

#[test]
fn every_input_of_the_corpus_is_answered_or_refused() {
    for (name, target) in targets::TARGETS {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
        let inputs: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(inputs.len() > 3, "{name} has a corpus");
        inputs.iter().for_each(|path| target(&fs::read(path).unwrap()));
        target(&[]);
    }
}
