//! Runs the cases of [`modules`](crate::modules) on any engine. The tests of `benthic-cls-wasm`
//! include this file.

use crate::modules::{self, Case};
use benthic_core::{ErrorKind, ObjectId, Pool, ReadOp, ReadOutput, WriteOp};
use benthic_wasm::{Call, Limits, ModuleId};
use bytes::Bytes;

/// Enough for every case that ends by itself.
const LIMITS: Limits = Limits { fuel: 50_000_000, memory_bytes: 16 * 1024 * 1024 };

/// Calls the method `run` of a module.
pub async fn run(
    pool: &dyn Pool,
    object: &ObjectId,
    wasm: &[u8],
    writes: bool,
    input: &[u8],
) -> benthic_core::Result<Bytes> {
    run_within(pool, object, wasm, writes, input, LIMITS).await
}

/// As [`run`], with other limits.
pub async fn run_within(
    pool: &dyn Pool,
    object: &ObjectId,
    wasm: &[u8],
    writes: bool,
    input: &[u8],
    limits: Limits,
) -> benthic_core::Result<Bytes> {
    let call = Call {
        module: ModuleId::of(wasm),
        limits,
        method: "run".to_owned(),
        input: Bytes::copy_from_slice(input),
        attached: None,
    };
    benthic_wasm::exec(pool, object, call, writes, async || Ok(Bytes::copy_from_slice(wasm))).await
}

/// The content of an object.
pub async fn state(pool: &dyn Pool, object: &ObjectId) -> benthic_core::Result<Vec<ReadOutput>> {
    let op = ReadOp::new().read(0, 1 << 20).list_xattrs().omap_range(None, "", 1_000);
    Ok(pool.read(object, op).await?.outputs)
}

/// Calls every module, and checks how each call ends and that the object is unchanged.
pub async fn every_module_ends_as_it_must(pool: &dyn Pool) {
    let object = ObjectId::new("victim").unwrap();
    let op = WriteOp::new()
        .write_full(&b"the object's data"[..])
        .set_xattr("name", &b"value"[..])
        .omap_set([(Bytes::from("key"), Bytes::from("value"))]);
    pool.write(&object, op).await.unwrap();
    let before = state(pool, &object).await.unwrap();
    let cases = modules::all();
    assert!(cases.len() >= 120, "{} cases", cases.len());
    let mut wrong = Vec::new();
    // With a compiler, the first call is interpreted, and the second one compiled.
    for (Case { name, wasm, writes, expected }, _) in cases.iter().flat_map(|case| [(case, 1), (case, 2)]) {
        let ended = run(pool, &object, wasm, *writes, b"").await;
        let is_right = match (&ended, expected) {
            (Ok(_), None) => true,
            (Err(error), Some(kind)) => error.kind() == *kind && !error.message().is_empty(),
            _ => false,
        };
        if !is_right {
            wrong.push(format!("{name}: {ended:?} instead of {expected:?}"));
        }
        if state(pool, &object).await.unwrap() != before {
            wrong.push(format!("{name}: the object changed"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

/// A module that copies its input into the data, an attribute and the omap, and one that returns
/// the bytes that it reads there.
pub async fn a_module_reads_and_writes(pool: &dyn Pool) {
    let object = ObjectId::new("copy").unwrap();
    // An earlier run on the same cluster may have left it.
    let _ = pool.remove(&object).await;
    let writer = modules::method(
        r#"(drop (call $input))
        (call $take (i32.const 100) (i32.const 0) (i32.const 5))
        (drop (call $write_full (i32.const 100) (i32.const 5)))
        (drop (call $append (i32.const 100) (i32.const 5)))
        (drop (call $set_xattr (i32.const 102) (i32.const 1) (i32.const 100) (i32.const 5)))
        (i32.store (i32.const 0) (i32.const 1))
        (i32.store (i32.const 4) (i32.const 1)) (i32.store8 (i32.const 8) (i32.const 107))
        (i32.store (i32.const 9) (i32.const 5)) (memory.copy (i32.const 13) (i32.const 100) (i32.const 5))
        (drop (call $omap_set (i32.const 0) (i32.const 18)))"#,
    );
    let writer = benthic_wasm::with_manifest(&writer, modules::manifest(false, true).as_bytes());
    let reader = modules::method(
        r#"(local $len i32)
        (local.set $len (i32.wrap_i64 (call $read (i64.const 0) (i64.const 100))))
        (call $take (i32.const 0) (i32.const 0) (local.get $len))
        (drop (call $output (i32.const 0) (local.get $len)))
        (i32.store8 (i32.const 0) (i32.const 108))
        (local.set $len (i32.wrap_i64 (call $get_xattr (i32.const 0) (i32.const 1))))
        (call $take (i32.const 0) (i32.const 0) (local.get $len))
        (drop (call $output (i32.const 0) (local.get $len)))
        (local.set $len (i32.wrap_i64 (call $omap_range (i32.const -1) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 10))))
        (call $take (i32.const 0) (i32.const 0) (local.get $len))
        (drop (call $output (i32.const 0) (local.get $len)))
        (local.set $len (i32.wrap_i64 (call $stat)))
        (call $take (i32.const 0) (i32.const 0) (local.get $len))
        (drop (call $output (i32.const 0) (i32.const 8)))"#,
    );
    let reader = benthic_wasm::with_manifest(&reader, modules::manifest(true, false).as_bytes());
    let missing = run(pool, &object, &reader, false, b"").await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert_eq!(run(pool, &object, &writer, true, b"hello").await.unwrap(), "");
    let read = run(pool, &object, &reader, false, b"").await.unwrap();
    assert_eq!(&read[..], b"hellohellohello\0\x01\0\0\0\x01\0\0\0k\x05\0\0\0hello\x0a\0\0\0\0\0\0\0");
    let refused = run(pool, &object, &writer, false, b"hello").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
}

/// A module whose method calls a native method with its own input, and returns its output or its
/// errno.
fn caller(class: &str, method: &str, writes: bool) -> Vec<u8> {
    calling(class, method, writes, "(return (i32.wrap_i64 (i64.sub (i64.const 0) (local.get $len))))")
}

/// As [`caller`], with the method's steps if the call fails.
fn calling(class: &str, method: &str, writes: bool, failed: &str) -> Vec<u8> {
    let wasm = modules::module(&format!(
        r#"(data (i32.const 0) "{class}{method}")
        (func (export "run") (result i32) (local $len i64)
            (local.set $len (call $input))
            (call $take (i32.const 100) (i32.const 0) (i32.wrap_i64 (local.get $len)))
            (local.set $len (call $call
                (i32.const 0) (i32.const {class_len}) (i32.const {class_len}) (i32.const {method_len})
                (i32.const 100) (i32.wrap_i64 (local.get $len))))
            (if (i64.lt_s (local.get $len) (i64.const 0)) (then {failed}))
            (call $take (i32.const 100) (i32.const 0) (i32.wrap_i64 (local.get $len)))
            (drop (call $output (i32.const 100) (i32.wrap_i64 (local.get $len))))
            i32.const 0)"#,
        class_len = class.len(),
        method_len = method.len(),
    ));
    benthic_wasm::with_manifest(&wasm, modules::manifest(true, writes).as_bytes())
}

pub async fn a_module_calls_native_classes(pool: &dyn Pool) {
    let object = ObjectId::new("called").unwrap();
    pool.write_full(&object, "the object's data").await.unwrap();
    // Native methods pay fuel for their time.
    let limits = Limits { fuel: Limits::MAX.fuel, ..LIMITS };
    let run = async |wasm: &[u8], writes: bool, input: &[u8]| {
        run_within(pool, &object, wasm, writes, input, limits).await
    };
    let digest = run(&caller("digest", "compute", false), false, b"md5").await.unwrap();
    assert_eq!(digest, "2890045e8e19105a53ca2c99164a16ba");

    let refused = async |wasm: &[u8], writes: bool, expected: ErrorKind| {
        let before = state(pool, &object).await.unwrap();
        let error = run(wasm, writes, b"md5").await.unwrap_err();
        assert_eq!(error.kind(), expected, "{error}");
        assert_eq!(state(pool, &object).await.unwrap(), before);
    };
    refused(&caller("digest", "none", false), false, ErrorKind::Unsupported).await;
    refused(&caller("wasm", "run_read", false), false, ErrorKind::Unsupported).await;
    // It writes, and the module's method does not declare that.
    refused(&caller("digest", "md5", false), false, ErrorKind::ClassFailed).await;
    refused(&caller("hello", "panic", true), true, ErrorKind::ClassFailed).await;
    refused(&caller("hello", "write_undeclared", true), true, ErrorKind::ClassFailed).await;
    refused(&caller("hello", "fail_after_writing", true), true, ErrorKind::InvalidArgument).await;
    // The module ignores the error.
    let ignoring = calling("hello", "fail_after_writing", true, "(return (i32.const 0))");
    refused(&ignoring, true, ErrorKind::InvalidArgument).await;

    run(&caller("hello", "append_line", true), true, b"a line").await.unwrap();
    let left = state(pool, &object).await.unwrap();
    assert_eq!(left[0], ReadOutput::Data("the object's dataa line\n".into()));
}

/// Endless loops with the most fuel. Without the deadline of the pool's engine they would take
/// seconds or minutes. With a compiler, the second call is compiled.
pub async fn the_deadline_ends_a_call(pool: &dyn Pool) {
    let object = ObjectId::new("late").unwrap();
    pool.write_full(&object, "x").await.unwrap();
    // Much time for little fuel: a fast processor would use up the fuel of an empty loop before the
    // deadline.
    let roots = "(local $x f64) (loop $again (local.set $x (f64.sqrt (f64.sqrt (f64.sqrt (f64.sqrt \
        (f64.add (local.get $x) (f64.const 2))))))) (br $again))";
    for body in [roots, "(loop $again (drop (memory.grow (i32.const 0))) (br $again))"] {
        let wasm =
            benthic_wasm::with_manifest(&modules::method(body), modules::manifest(true, false).as_bytes());
        for _ in 0..2 {
            let error = run_within(pool, &object, &wasm, false, b"", Limits::MAX).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LimitExceeded);
            assert!(error.message().contains("deadline"), "{body}: {error}");
        }
    }
}
