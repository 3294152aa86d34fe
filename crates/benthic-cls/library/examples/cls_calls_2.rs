//! `libcls_calls_2.so`: the next wire version of `cls_calls_1.rs`, for the upgrade test. Its `look`
//! has another meaning.

use benthic_core::{Class, ClassRegistry, Method, MethodFlags, MethodResult};

struct Calls;

impl Class for Calls {
    fn name(&self) -> &'static str {
        "calls"
    }

    fn version(&self) -> u32 {
        2
    }

    fn summary(&self) -> &'static str {
        "returns its version"
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

static METHODS: [Method; 1] = [Method {
    name: "look",
    flags: MethodFlags::READ,
    run: |_, _| Ok(b"version 2".to_vec()),
    result: MethodResult::Output,
    summary: "returns its version",
    input: "nothing",
    output: "the version",
    examples: &[""],
}];

benthic_cls::export!("calls_2", ClassRegistry::new().with(Calls));
