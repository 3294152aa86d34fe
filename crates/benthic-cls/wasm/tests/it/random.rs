//! Random valid modules. A call of one never panics, changes nothing if it fails, and gives the
//! same result in both runtimes.

use crate::{modules, open, suite};
use arbitrary::Unstructured;
use benthic_core::{ErrorKind, MethodLimits, ObjectId, Pool, ReadOutput};
use benthic_testkit::random::Rng;
use benthic_wasm::{Limits, with_manifest};
use bytes::Bytes;
use futures::executor::block_on;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wasm_smith::Config;

/// Modules of a run, and of a long run (`make test-long`). BENTHIC_TEST_FIRST is the number of the
/// first module, 0 by default, so that an interrupted run can continue.
const MODULES: u64 = 300;
const MODULES_LONG: u64 = 1_000_000;
/// Modules between two lines of progress.
const PROGRESS: u64 = 10_000;
/// A random module either ends soon or never does, so it has little fuel.
const LIMITS: Limits = Limits { fuel: 2_000_000, memory_bytes: 16 << 20 };
/// Bytes from which one module is generated.
const SEED_BYTES: usize = 4 * 1024;

/// Modules that both runtimes accept, with all functions of the interface.
fn config(seed: &mut Unstructured<'_>) -> arbitrary::Result<Config> {
    let exports =
        "(module (func (export \"run\") (result i32) unreachable) (memory (export \"memory\") 1 16))";
    Ok(Config {
        available_imports: Some(modules::module("(func (export \"run\") (result i32) unreachable)")),
        exports: Some(wat::parse_str(exports).unwrap()),
        allow_start_export: false,
        bulk_memory_enabled: true,
        exceptions_enabled: false,
        gc_enabled: false,
        memory64_enabled: false,
        multi_value_enabled: false,
        relaxed_simd_enabled: false,
        simd_enabled: false,
        tail_call_enabled: false,
        threads_enabled: false,
        extended_const_enabled: false,
        reference_types_enabled: false,
        max_memory32_bytes: 1 << 20,
        max_table_elements: 1_000,
        max_instructions: seed.int_in_range(10..=400)?,
        max_funcs: 8,
        // Most random modules would trap soon.
        disallow_traps: seed.ratio(3, 4)?,
        ..Config::default()
    })
}

fn module(number: u64) -> Option<Vec<u8>> {
    let bytes = Rng(number).bytes(SEED_BYTES);
    let mut seed = Unstructured::new(&bytes);
    let config = config(&mut seed).ok()?;
    Some(wasm_smith::Module::new(config, &mut seed).ok()?.to_bytes())
}

/// How a call ended, and the object after it.
type Ended = (Result<Bytes, ErrorKind>, Vec<ReadOutput>);

async fn call(pool: &dyn Pool, object: &ObjectId, wasm: &[u8]) -> (Ended, String) {
    pool.write_full(object, "the object's data").await.unwrap();
    let before = suite::state(pool, object).await.unwrap();
    let ended = suite::run_within(pool, object, wasm, true, b"the input", LIMITS).await;
    let after = match suite::state(pool, object).await {
        Ok(state) => state,
        // The module may remove the object.
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::NotFound);
            Vec::new()
        }
    };
    if ended.is_err() {
        assert_eq!(after, before, "a call that failed changed the object");
    }
    let text = ended.as_ref().err().map(ToString::to_string).unwrap_or_default();
    let _ = pool.remove(object).await;
    ((ended.map_err(|error| error.kind()), after), text)
}

/// Whether the calls of both runtimes returned the same, instead of ending at a limit or a trap.
async fn same_in_both(pool: &dyn Pool, object: &ObjectId, number: u64, wasm: &[u8]) -> bool {
    let wasm = with_manifest(wasm, modules::manifest(true, true).as_bytes());
    // The first call is interpreted, and the second one compiled.
    let (interpreted, text) = call(pool, object, &wasm).await;
    let (compiled, other) = call(pool, object, &wasm).await;
    // The runtimes differ in their fuel and their stack.
    let is_limit = |text: &str| text.contains("fuel") || text.contains("recursion");
    if is_limit(&text) || is_limit(&other) {
        return false;
    }
    assert_eq!(interpreted, compiled, "module {number}: {text:?} and {other:?}");
    if text != other {
        // The runtimes describe a trap in different words. The text of a returned errno has its
        // number.
        let is_trap = |text: &str| !text.is_empty() && !text.contains("errno=");
        assert!(is_trap(&text) && is_trap(&other), "module {number}: {text:?} and {other:?}");
    }
    text == other
}

#[test]
#[expect(clippy::print_stderr, reason = "a test has no other way to say how much it did")]
fn random_modules_end_the_same_in_both_runtimes() {
    let long = std::env::var("BENTHIC_TEST_LONG").is_ok();
    let (pool, modules) = (open(MethodLimits::default()), if long { MODULES_LONG } else { MODULES });
    let first = std::env::var("BENTHIC_TEST_FIRST").map_or(0, |number| number.parse().unwrap());
    let (called, returned) = (AtomicU64::new(0), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (pool, called, returned) = (&pool, &called, &returned);
            scope.spawn(move || {
                let object = ObjectId::new(format!("o{thread}")).unwrap();
                for number in (first + thread..first + modules).step_by(threads as usize) {
                    let Some(wasm) = module(number) else { continue };
                    let before = called.fetch_add(1, Relaxed);
                    if before > 0 && before.is_multiple_of(PROGRESS) {
                        eprintln!("{before} modules called; now module {number}");
                    }
                    if block_on(same_in_both(&**pool, &object, number, &wasm)) {
                        returned.fetch_add(1, Relaxed);
                    }
                }
            });
        }
    });
    let (called, returned) = (called.into_inner(), returned.into_inner());
    assert!(called > modules / 2 && returned > called / 4, "{called} called, {returned} returned");
    if long {
        eprintln!("{called} modules called, {returned} returned the same output");
    }
}
