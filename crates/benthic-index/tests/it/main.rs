//! Runs the inputs that the fuzzer kept through the decoders again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

// The fuzzer's target; it stands outside the workspace, because it takes a build of its own.
#[path = "../../../../fuzz/src/index.rs"]
mod targets;

use std::fs;
use std::path::Path;

#[test]
fn every_input_of_the_corpus_is_decoded_or_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/index");
    let inputs: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(inputs.len() > 10, "there is a corpus");
    for path in inputs {
        let input = fs::read(&path).unwrap();
        let outcome = std::panic::catch_unwind(|| targets::index(&input));
        assert!(outcome.is_ok(), "the input is {}", path.display());
    }
    targets::index(&[]);
}
