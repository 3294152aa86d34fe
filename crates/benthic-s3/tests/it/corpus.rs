//! Runs the fuzzer's corpus of policies through its target again.

use benthic_testkit::corpus::replay;

#[path = "../../../../fuzz/src/policy.rs"]
mod targets;

#[test]
fn no_input_of_the_corpus_is_a_finding() {
    targets::TARGETS.iter().for_each(|(name, target)| replay(name, *target));
}
