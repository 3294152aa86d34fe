//! Runs the fuzzer's corpus through its targets again.

use std::path::Path;

/// Runs a target on every input of its corpus, and on no bytes at all.
///
/// # Panics
/// If the target panics, and if there is no corpus.
pub fn replay(name: &str, target: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let entries = std::fs::read_dir(&corpus).unwrap_or_else(|error| panic!("{}: {error}", corpus.display()));
    let inputs: Vec<_> = entries.map(|entry| entry.expect("the corpus can be read").path()).collect();
    assert!(inputs.len() > 10, "{name} has a corpus");
    for path in inputs {
        let input = std::fs::read(&path).expect("the corpus can be read");
        let outcome = std::panic::catch_unwind(|| target(&input));
        assert!(outcome.is_ok(), "{name} panics; the input is {}", path.display());
    }
    target(&[]);
}
