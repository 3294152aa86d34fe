//! The class `wasm` on the memory engine, with the compiler.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../../benthic-wasm/tests/it/modules.rs"]
mod modules;
#[path = "../../../../benthic-wasm/tests/it/native.rs"]
mod native;
mod random;
#[path = "../../../../benthic-wasm/tests/it/suite.rs"]
mod suite;

use benthic_core::{ClassRegistry, ErrorKind, MethodLimits, ObjectId, Pool, Store};
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
    open_store(method_limits).1
}

fn open_store(method_limits: MethodLimits) -> (Arc<dyn Store>, Arc<dyn Pool>) {
    let classes =
        ClassRegistry::new().with(Wasm::with_compiler(compile_now).with_callees(benthic_classes::registry()));
    let options = Options { method_limits, ..Options::default() };
    let store = MemStore::new(options.with_classes(classes));
    block_on(async {
        store.create_pool("p").await.unwrap();
        let pool = store.open_pool("p").await.unwrap();
        (store as Arc<dyn Store>, pool)
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
fn a_module_calls_native_classes() {
    block_on(suite::a_module_calls_native_classes(&*pool()));
}

#[test]
fn the_deadline_ends_a_call() {
    block_on(suite::the_deadline_ends_a_call(&*open(MethodLimits {
        deadline_ms: 300,
        ..MethodLimits::default()
    })));
}

/// A call that ends inside of the module names the innermost functions in its error. Only compiled
/// code does.
#[test]
fn an_error_names_the_functions_of_the_module() {
    let (pool, object) = (pool(), ObjectId::new("named").unwrap());
    block_on(pool.write_full(&object, "x")).unwrap();
    let ends = |fields: &str| {
        let fields = format!("{fields} (func $run (export \"run\") (result i32) (call $outer) i32.const 0)");
        let wasm = with_manifest(&modules::module(&fields), modules::manifest(true, false).as_bytes());
        let mut ended = (0..2).map(|_| block_on(suite::run(&*pool, &object, &wasm, false, b"")).unwrap_err());
        let (interpreted, compiled) = (ended.next().unwrap(), ended.next().unwrap());
        assert_eq!(interpreted.kind(), compiled.kind());
        assert!(!interpreted.message().contains("; in "), "{interpreted}");
        compiled.message().to_owned()
    };
    let message = ends("(func $inner unreachable) (func $outer (call $inner))");
    assert!(
        message.starts_with("the method trapped: ") && message.ends_with("; in inner < outer < run"),
        "{message}"
    );
    assert!(!message.contains('\n'), "{message}");
    let message = ends(
        "(func $inner (call $take (i32.const -1) (i32.const 0) (i32.const 1))) (func $outer (call $inner))",
    );
    assert!(
        message.contains("outside its memory") && message.ends_with("; in inner < outer < run"),
        "{message}"
    );
    let message = ends("(func $inner (loop $again (br $again))) (func $outer (call $inner))");
    assert!(message.contains("more fuel") && message.ends_with("; in inner < outer < run"), "{message}");
    let message = ends("(func $outer (call $outer))");
    assert!(
        message.contains("recursion") && message.ends_with(&format!("; in {}...", "outer < ".repeat(8))),
        "{message}"
    );
    let message = ends("(func $outer (@name \"a\\1b[2Jb\\n\") unreachable)");
    assert!(message.ends_with("; in a?[2Jb? < run"), "{message}");
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

/// The native classes as modules, compiled to machine code.
mod conformance {
    fn subject() -> benthic_testkit::conformance::Subject {
        let deadline_ms = 500;
        let method_limits = super::MethodLimits { deadline_ms, ..super::MethodLimits::default() };
        let (store, pool) = super::open_store(method_limits);
        super::native::subject(store, pool)
    }

    benthic_testkit::class_conformance!(subject());
}
