//! Runs the fuzzer's corpus through the decoder again.

// The fuzz target. It is outside the workspace because it needs its own build.
#[path = "../../../../fuzz/src/head.rs"]
mod targets;

use std::fs;
use std::path::Path;

#[test]
fn every_input_of_the_corpus_is_decoded_or_refused() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/head");
    let inputs: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(inputs.len() > 10, "there is a corpus");
    for path in inputs {
        let input = fs::read(&path).unwrap();
        let outcome = std::panic::catch_unwind(|| targets::head(&input));
        assert!(outcome.is_ok(), "the input is {}", path.display());
    }
    targets::head(&[]);
}
