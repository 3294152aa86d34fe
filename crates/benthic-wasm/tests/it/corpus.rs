//! Runs the inputs that a fuzzer would keep through the targets again.

// They are outside the workspace, because a fuzzer needs its own build.
#[path = "../../../../fuzz/src/module.rs"]
mod targets;

use std::fs;
use std::path::Path;

fn replay(name: &str, target: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let inputs: Vec<_> = fs::read_dir(corpus).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(inputs.len() > 4, "there is a corpus");
    for path in inputs {
        let input = fs::read(&path).unwrap();
        // All beginnings of a short input, and 100 of a long one.
        for len in (0..=input.len()).step_by(input.len() / 100 + 1).chain([input.len()]) {
            let outcome = std::panic::catch_unwind(|| target(&input[..len]));
            assert!(outcome.is_ok(), "the input is {len} bytes of {}", path.display());
        }
    }
}

#[test]
fn every_module_of_the_corpus_is_refused_or_called() {
    replay("module", targets::module);
}

#[test]
fn every_call_of_the_corpus_is_decoded_or_refused() {
    replay("module_call", targets::module_call);
}
