//! Runs the fuzzer's corpus through the targets again.

// They are outside the workspace, because a fuzzer needs its own build.
#[path = "../../../../fuzz/src/array.rs"]
mod targets;

#[test]
fn no_input_of_the_corpus_breaks_a_promise() {
    for (name, target) in targets::TARGETS {
        benthic_testkit::corpus::replay(name, target);
    }
}
