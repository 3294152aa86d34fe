//! Runs the fuzzer's corpus through the decoders again.

// The fuzzer's targets. The fuzzer is outside the workspace, because it needs its own build.
#[path = "../../../fuzz/src/lib.rs"]
mod targets;

#[test]
fn no_input_of_the_corpus_makes_a_decoder_panic() {
    for (name, target) in targets::TARGETS {
        benthic_testkit::corpus::replay(name, target);
    }
}
