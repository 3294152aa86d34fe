use crate::{modules, suite};
use benthic_core::{ClassRegistry, ErrorKind, MethodLimits, ObjectId, Pool, Store};
use benthic_embedded::{MemStore, Options};
use benthic_wasm::{Call, Limits, Manifest, Module, ModuleId, Wasm, with_manifest};
use bytes::Bytes;
use futures::executor::block_on;
use std::sync::Arc;

pub fn pool() -> Arc<dyn Pool> {
    open(MethodLimits::default())
}

fn open(method_limits: MethodLimits) -> Arc<dyn Pool> {
    let classes = ClassRegistry::new().with(Wasm::new().with_callees(benthic_classes::registry()));
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

#[test]
fn a_large_module_is_sent_once() {
    let (pool, object) = (pool(), ObjectId::new("o").unwrap());
    let text = "x".repeat(7 << 20);
    let wasm = modules::module(&format!(
        "(memory (export \"memory\") 200) (data (i32.const 0) \"{text}\") (func (export \"run\") (result i32) i32.const 0)"
    ));
    let wasm = Bytes::from(with_manifest(&wasm, modules::manifest(false, true).as_bytes()));
    let call = Call {
        module: ModuleId::of(&wasm),
        limits: Limits::default(),
        method: "run".to_owned(),
        input: Bytes::new(),
        attached: None,
    };
    block_on(async {
        benthic_wasm::exec(&*pool, &object, call.clone(), true, async || Ok(wasm.clone())).await.unwrap();
        benthic_wasm::exec(&*pool, &object, call, true, async || panic!("it was sent")).await.unwrap();
    });
}

#[test]
fn a_module_is_sent_once() {
    let (pool, object) = (pool(), ObjectId::new("o").unwrap());
    let wasm = with_manifest(
        &modules::method("(drop (call $create (i32.const 0)))"),
        modules::manifest(false, true).as_bytes(),
    );
    let call = Call {
        module: ModuleId::of(&wasm),
        limits: Limits::default(),
        method: "run".to_owned(),
        input: Bytes::new(),
        attached: None,
    };
    block_on(async {
        let sent = std::cell::Cell::new(0);
        let fetch = async || {
            sent.set(sent.get() + 1);
            Ok(Bytes::from(wasm.clone()))
        };
        for _ in 0..3 {
            benthic_wasm::exec(&*pool, &object, call.clone(), true, fetch).await.unwrap();
        }
        assert_eq!(sent.get(), 1);
        // Another module in its place.
        let other = Call { module: ModuleId([7; 32]), ..call };
        let error =
            benthic_wasm::exec(&*pool, &object, other, true, async || Ok(Bytes::from(wasm.clone()))).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidArgument);
    });
}

/// The text of a module that ends itself reaches the caller.
#[test]
fn the_reason_of_an_end_is_in_the_error() {
    let run = |wasm: &[u8]| {
        let (pool, object) = (pool(), ObjectId::new("o").unwrap());
        block_on(pool.write_full(&object, "data")).unwrap();
        let wasm = with_manifest(wasm, modules::manifest(true, false).as_bytes());
        block_on(suite::run(&*pool, &object, &wasm, false, b"")).unwrap_err().to_string()
    };
    let exits = wat::parse_str(
        r#"(module
            (import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
            (import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "\0a\0aout of luck\0agoroutine 1\0a")
            (data (i32.const 100) "\00\00\00\00\1a\00\00\00")
            (func (export "run") (result i32)
                (drop (call $fd_write (i32.const 2) (i32.const 100) (i32.const 1) (i32.const 200)))
                (call $proc_exit (i32.const 2)) i32.const 0))"#,
    );
    let error = run(&exits.unwrap());
    assert!(error.contains("the method exited: out of luck") && error.contains("status=2"), "{error}");
    let panics = modules::module(
        "(data (i32.const 0) \"no entry\") (func (export \"run\") (result i32) \
        (call $fail (i32.const 0) (i32.const 8)) unreachable)",
    );
    let error = run(&panics);
    assert!(error.contains("no entry") && !error.contains("trapped"), "{error}");
}

#[test]
fn calls_are_encoded_and_decoded() {
    let call = Call {
        module: ModuleId::of(b"module"),
        limits: Limits { fuel: 1, memory_bytes: 2 },
        method: "run".to_owned(),
        input: Bytes::from("input"),
        attached: Some(Bytes::from("module")),
    };
    let bytes = Bytes::from(call.encode());
    assert_eq!(Call::decode(&bytes).unwrap(), call);
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert_eq!(Call::decode(&longer.into()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    for len in 0..bytes.len() {
        assert_eq!(Call::decode(&bytes.slice(..len)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let mut later = bytes.to_vec();
    later[0] = 2;
    assert_eq!(Call::decode(&later.into()).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(ModuleId::parse(&call.module.to_string()), Some(call.module));
    assert_eq!(ModuleId::parse("+1"), None);
}

#[test]
fn a_module_describes_itself() {
    let json = r#"{"class":"words","version":3,"summary":"count words","methods":[
        {"method":"run","reads":true,"summary":"count","input":"none","output":"a number","examples":[""]}]}"#;
    let module = Module::new(&with_manifest(&modules::method(""), json.as_bytes()).into()).unwrap();
    let info = module.manifest().info("b");
    assert_eq!((info.name.as_str(), info.version, info.methods[0].reads), ("words", 3, true));
    assert_eq!(Manifest::parse(json.as_bytes()).unwrap(), *module.manifest());
    assert_eq!(module.manifest().method("other").unwrap_err().kind(), ErrorKind::Unsupported);
    for name in ["", "a b", "\\u001b[2J", "é"] {
        let json =
            format!(r#"{{"class":"words","version":3,"methods":[{{"method":"{name}","reads":true}}]}}"#);
        assert_eq!(
            Manifest::parse(json.as_bytes()).unwrap_err().kind(),
            ErrorKind::InvalidArgument,
            "{name}"
        );
    }
}

/// A module for a newer build says so: by an unknown field of its manifest, or by the functions
/// that it imports.
#[test]
fn a_module_of_a_newer_build_says_so() {
    let manifest = modules::manifest(true, false).replace("\"reads\"", "\"colour\":1,\"reads\"");
    let unknown_field = with_manifest(&modules::method(""), manifest.as_bytes());
    let newer_interface = wat::parse_str(
        r#"(module (import "benthic_2" "output" (func (param i32 i32) (result i64)))
            (memory (export "memory") 1) (func (export "run") (result i32) i32.const 0))"#,
    );
    let newer_interface = with_manifest(&newer_interface.unwrap(), modules::manifest(true, false).as_bytes());
    for (wasm, what) in [(unknown_field, "colour"), (newer_interface, "benthic_2")] {
        let error = Module::new(&wasm.into()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string();
        assert!(text.contains(what) && text.contains("its libcls_wasm_1.so in the OSDs"), "{text}");
    }
}

/// The answer of an older OSD to a call in a newer format.
#[test]
fn a_call_of_a_newer_client_is_refused_with_the_next_step() {
    let (pool, object) = (pool(), ObjectId::new("o").unwrap());
    block_on(pool.write_full(&object, "data")).unwrap();
    for method in ["run_read", "run_write", "check"] {
        let call = benthic_core::ClassCall::new(Wasm::NAME, method, [2, 0, 0].to_vec());
        let error = block_on(pool.exec(&object, call)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("install the library of the client's build"), "{error}");
    }
}
