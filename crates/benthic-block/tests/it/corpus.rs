//! Runs the fuzzer's corpus through the targets again.

// They are outside the workspace, because a fuzzer needs its own build.
#[path = "../../../../fuzz/src/image.rs"]
mod targets;

use std::fs;
use std::path::Path;

#[test]
fn no_input_of_the_corpus_breaks_a_promise() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    for (name, target) in targets::TARGETS {
        let inputs: Vec<_> =
            fs::read_dir(corpus.join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(inputs.len() > 10, "{name} has a corpus");
        for path in inputs {
            let input = fs::read(&path).unwrap();
            let outcome = std::panic::catch_unwind(|| target(&input));
            assert!(outcome.is_ok(), "{name} panics; the input is {}", path.display());
        }
        target(&[]);
    }
}
