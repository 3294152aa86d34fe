//! The published experiment: repeat stat, read of the whole object, MD5, and set of an attribute on
//! one object. Four sides do it: our class in the OSD, a C++ class in the OSD, a WebAssembly module
//! in the OSD, and a client that waits for each step.

use bench_harness::{Outcome, median, noise, pool, seconds, start};
use benthic_classes::digest::{Algorithm, Hasher, wire::StoreInput};
use benthic_core::{ClassCall, ObjectId, Pool, Store, WriteOp};
use benthic_wasm::{Call, Limits, ModuleId};
use bytes::Bytes;
use serde::Serialize;
use std::time::Duration;

/// Object sizes and repetitions: 1,000 as published, or for 4 MiB the number that one call can hash
/// well before a method's deadline.
const SIZES: [(usize, u32); 4] = [(4 << 10, 1000), (64 << 10, 1000), (1 << 20, 1000), (4 << 20, 250)];
const PLAIN_XATTR: &str = "plain.md5";
const WASM_XATTR: &str = "wasm.md5";
/// The module gets several calls for more data, because a call's fuel is limited.
const WASM_BYTES_PER_CALL: usize = 100 << 20;
/// Time for the OSD's compiler.
const COMPILE_TIME: Duration = Duration::from_millis(500);

#[derive(Serialize)]
pub struct Row {
    pub size_bytes: usize,
    pub repeat: u32,
    pub class_s: f64,
    /// None if the C++ class is not installed.
    pub cpp_class_s: Option<f64>,
    /// None if the module's library is not installed.
    pub wasm_s: Option<f64>,
    pub client_s: f64,
    pub client_by_class: f64,
    pub cpp_by_class: Option<f64>,
    pub client_by_wasm: Option<f64>,
}

/// Measures all sides, or without the module `guest` only those that need no installed library.
pub async fn run(store: &dyn Store, rounds: usize, quick: bool, guest: Option<&Bytes>) -> Outcome<Vec<Row>> {
    let pool = pool(store, "experiment").await?;
    let mut rows = Vec::new();
    for (size_bytes, repeat) in SIZES {
        let repeat = if quick { repeat / 100 } else { repeat };
        eprintln!("published experiment: {repeat} x {size_bytes} bytes, {rounds} rounds");
        let object = ObjectId::new(format!("object-{size_bytes}"))?;
        let data = noise(size_bytes);
        let expected = md5(&data);
        pool.write_full(&object, data).await?;
        let ours = StoreInput { repeat }.encode();
        // The first call loads the class into the OSD.
        call(&*pool, &object, "digest", StoreInput { repeat: 1 }.encode()).await?;
        if let Some(guest) = guest {
            call(&*pool, &object, "plainmd5", "1".to_owned()).await?;
            // The second call has the module compiled, which takes a moment.
            for _ in 0..2 {
                call_wasm(&*pool, &object, guest, 1).await?;
                tokio::time::sleep(COMPILE_TIME).await;
            }
        }
        let (mut class_s, mut plain_s, mut wasm_s, mut client_s) = (vec![], vec![], vec![], vec![]);
        for _ in 0..rounds {
            class_s.push(call(&*pool, &object, "digest", ours.clone()).await?);
            if let Some(guest) = guest {
                plain_s.push(call(&*pool, &object, "plainmd5", repeat.to_string()).await?);
                wasm_s.push(wasm(&*pool, &object, guest, repeat, size_bytes).await?);
            }
            check(&*pool, &object, Algorithm::Md5.xattr(), &expected).await?;
            client_s.push(client(&*pool, &object, repeat).await?);
        }
        if guest.is_some() {
            check(&*pool, &object, PLAIN_XATTR, &expected).await?;
            check(&*pool, &object, WASM_XATTR, &expected).await?;
        }
        let (class_s, client_s) = (median(class_s), median(client_s));
        let (cpp_class_s, wasm_s) = (guest.map(|_| median(plain_s)), guest.map(|_| median(wasm_s)));
        eprintln!(
            "class {class_s:.4} s, C++ {cpp_class_s:.4?} s, module {wasm_s:.4?} s, client {client_s:.3} s"
        );
        rows.push(Row {
            size_bytes,
            repeat,
            class_s,
            cpp_class_s,
            wasm_s,
            client_s,
            client_by_class: client_s / class_s,
            cpp_by_class: cpp_class_s.map(|cpp_class_s| cpp_class_s / class_s),
            client_by_wasm: wasm_s.map(|wasm_s| client_s / wasm_s),
        });
    }
    Ok(rows)
}

async fn call(pool: &dyn Pool, object: &ObjectId, class: &str, input: String) -> Outcome<f64> {
    let call = ClassCall::new(class, "md5", input);
    let stopwatch = start();
    pool.exec(object, call).await?;
    Ok(seconds(stopwatch))
}

async fn wasm(
    pool: &dyn Pool,
    object: &ObjectId,
    guest: &Bytes,
    repeat: u32,
    size_bytes: usize,
) -> Outcome<f64> {
    let stopwatch = start();
    let repeat_max = (WASM_BYTES_PER_CALL / size_bytes).min(repeat as usize).max(1) as u32;
    for first in (0..repeat).step_by(repeat_max as usize) {
        call_wasm(pool, object, guest, repeat_max.min(repeat - first)).await?;
    }
    Ok(seconds(stopwatch))
}

async fn call_wasm(pool: &dyn Pool, object: &ObjectId, guest: &Bytes, repeat: u32) -> Outcome {
    let call = Call {
        module: ModuleId::of(guest),
        limits: Limits { fuel: Limits::MAX.fuel, ..Limits::default() },
        method: "keep_md5".to_owned(),
        input: repeat.to_string().into(),
        attached: None,
    };
    benthic_wasm::exec(pool, object, call, true, async || Ok(guest.clone())).await?;
    Ok(())
}

async fn client(pool: &dyn Pool, object: &ObjectId, repeat: u32) -> Outcome<f64> {
    let stopwatch = start();
    for _ in 0..repeat {
        let (stat, _) = pool.stat(object).await?;
        let digest = md5(&pool.read_range(object, 0, stat.size_bytes).await?);
        pool.write(object, WriteOp::new().set_xattr(Algorithm::Md5.xattr(), digest)).await?;
    }
    Ok(seconds(stopwatch))
}

/// Fails on a wrong digest, because the time of a wrong result is meaningless.
async fn check(pool: &dyn Pool, object: &ObjectId, xattr: &str, expected: &str) -> Outcome {
    let stored = pool.get_xattr(object, xattr).await?;
    if stored == expected {
        Ok(())
    } else {
        Err(format!("{xattr} is wrong: {stored:?}, not {expected}").into())
    }
}

fn md5(data: &[u8]) -> String {
    let mut hasher = Hasher::new(Algorithm::Md5);
    hasher.update(data);
    hasher.finish()
}
