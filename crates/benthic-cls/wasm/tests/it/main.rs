//! The class `wasm` on the memory engine, with the compiler.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../../benthic-wasm/tests/it/modules.rs"]
mod modules;
#[path = "../../../../benthic-wasm/tests/it/suite.rs"]
mod suite;

use benthic_core::{ClassRegistry, ErrorKind, MethodLimits, Pool, Store};
use benthic_embedded::{MemStore, Options};
use benthic_wasm::{Module, Wasm, with_manifest};
use futures::executor::block_on;
use std::sync::Arc;

/// Compiles during the call, so that the tests know which runtime runs.
fn compile_now(module: &Arc<Module>) {
    let _ = cls_wasm_1::compile(module);
}

fn pool() -> Arc<dyn Pool> {
    open(MethodLimits::default())
}

fn open(method_limits: MethodLimits) -> Arc<dyn Pool> {
    let classes = ClassRegistry::new().with(Wasm::with_compiler(compile_now));
    let options = Options { method_limits, ..Options::default() };
    let store = MemStore::new(options.with_classes(classes));
    block_on(async {
        store.create_pool("p").await.unwrap();
        store.open_pool("p").await.unwrap()
    })
}

#[test]
fn every_module_ends_as_it_must() {
    block_on(suite::every_module_ends_as_it_must(&*pool()));
}

#[test]
fn a_module_reads_and_writes() {
    block_on(suite::a_module_reads_and_writes(&*pool()));
}

#[test]
fn the_deadline_ends_a_call() {
    block_on(suite::the_deadline_ends_a_call(&*open(MethodLimits {
        deadline_ms: 300,
        ..MethodLimits::default()
    })));
}

fn module(wasm: &[u8]) -> Module {
    Module::new(&with_manifest(wasm, modules::manifest(true, false).as_bytes()).into()).unwrap()
}

#[test]
fn modules_that_would_take_the_compiler_long_stay_interpreted() {
    let small = module(&modules::method(""));
    cls_wasm_1::compile(&small).unwrap();
    assert!(small.is_compiled());
    let long = modules::method(&"(drop (i32.add (i32.load (i32.const 0)) (i32.const 1)))".repeat(10_000));
    // Each local may be alive in each of the branches.
    let locals: String = (0..3_000)
        .map(|local| {
            format!("(if (local.get {local}) (then (local.set {} (i32.const 1))))", (local * 7) % 3_000)
        })
        .collect();
    let locals = modules::module(&format!(
        "(func (export \"run\") (result i32) (local {}) {locals} i32.const 0)",
        "i32 ".repeat(3_000)
    ));
    let large = modules::module(&format!(
        "(memory (export \"memory\") 20) (data (i32.const 0) \"{}\") (func (export \"run\") (result i32) i32.const 0)",
        "x".repeat(1 << 20)
    ));
    for wasm in [long, locals, large] {
        let module = module(&wasm);
        assert_eq!(cls_wasm_1::compile(&module).unwrap_err().kind(), ErrorKind::LimitExceeded);
        assert!(!module.is_compiled());
    }
}

#[test]
fn a_module_is_compiled_in_the_background() {
    let module = Arc::new(module(&modules::method("")));
    cls_wasm_1::compile_later(&module);
    // The test's own time limit is that of the whole run.
    while !module.is_compiled() {
        std::thread::yield_now();
    }
}
