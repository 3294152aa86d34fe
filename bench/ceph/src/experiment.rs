//! The published experiment: repeat stat, read of the whole object, MD5, and set of an attribute on
//! one object. Three sides do it: our class in the OSD, a C++ class in the OSD, and a client that
//! waits for each step.

use bench_harness::{Outcome, median, noise, pool, seconds, start};
use benthic_classes::digest::{Algorithm, Hasher, wire::StoreInput};
use benthic_core::{ClassCall, ObjectId, Pool, Store, WriteOp};
use serde::Serialize;

/// Object sizes and repetitions: 1,000 as published, or for 4 MiB the number that one call can hash
/// well before a method's deadline.
const SIZES: [(usize, u32); 4] = [(4 << 10, 1000), (64 << 10, 1000), (1 << 20, 1000), (4 << 20, 250)];
const PLAIN_XATTR: &str = "plain.md5";

#[derive(Serialize)]
pub struct Row {
    pub size_bytes: usize,
    pub repeat: u32,
    pub class_s: f64,
    /// None if the C++ class is not installed.
    pub cpp_class_s: Option<f64>,
    pub client_s: f64,
    pub client_by_class: f64,
    pub cpp_by_class: Option<f64>,
}

pub async fn run(store: &dyn Store, rounds: usize, quick: bool, plain: bool) -> Outcome<Vec<Row>> {
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
        if plain {
            call(&*pool, &object, "plainmd5", "1".to_owned()).await?;
        }
        let (mut class_s, mut plain_s, mut client_s) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..rounds {
            class_s.push(call(&*pool, &object, "digest", ours.clone()).await?);
            if plain {
                plain_s.push(call(&*pool, &object, "plainmd5", repeat.to_string()).await?);
            }
            check(&*pool, &object, Algorithm::Md5.xattr(), &expected).await?;
            client_s.push(client(&*pool, &object, repeat).await?);
        }
        if plain {
            check(&*pool, &object, PLAIN_XATTR, &expected).await?;
        }
        let (class_s, client_s) = (median(class_s), median(client_s));
        let cpp_class_s = plain.then(|| median(plain_s));
        rows.push(Row {
            size_bytes,
            repeat,
            class_s,
            cpp_class_s,
            client_s,
            client_by_class: client_s / class_s,
            cpp_by_class: cpp_class_s.map(|cpp_class_s| cpp_class_s / class_s),
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
