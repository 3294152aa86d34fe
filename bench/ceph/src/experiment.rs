//! The published experiment: on one object, many times stat, read of all, MD5, and set of an attribute: by our class in
//! storage, by the C++ class in storage, and by a client that waits for each step.

use crate::Outcome;
use crate::cluster::new_pool;
use bench_report::stats::{median, noise, seconds};
use benthic_classes::digest::{Algorithm, Hasher, wire::StoreInput};
use benthic_core::{ClassCall, ObjectId, Pool, Store, WriteOp};
use serde_json::{Value, json};
use std::time::Instant;

/// Object sizes, and how often all is done on each: 1,000 times as published, or what one call can hash well before a
/// method's deadline.
const SIZES: [(usize, u32); 4] = [(4 << 10, 1000), (64 << 10, 1000), (1 << 20, 1000), (4 << 20, 250)];
const PLAIN_XATTR: &str = "plain.md5";

/// Medians for one size.
pub struct Row {
    pub size_bytes: usize,
    pub repeat: u32,
    /// One call of our class.
    pub class_s: f64,
    /// One call of the C++ class, where it was measured.
    pub plain_s: Option<f64>,
    pub client_s: f64,
}

impl Row {
    /// How many times faster than the client.
    pub fn gain(&self) -> f64 {
        self.client_s / self.class_s
    }

    /// Our speed by that of the C++ class.
    pub fn by_plain(&self) -> Option<f64> {
        self.plain_s.map(|plain_s| plain_s / self.class_s)
    }

    pub fn to_json(&self) -> Value {
        json!({
            "size_bytes": self.size_bytes,
            "repeat": self.repeat,
            "class_s": self.class_s,
            "cpp_class_s": self.plain_s,
            "client_s": self.client_s,
            "client_by_class": self.gain(),
            "cpp_by_class": self.by_plain(),
        })
    }
}

/// Runs it, without the C++ class if that is not installed.
pub async fn run(store: &dyn Store, rounds: usize, quick: bool, plain: bool) -> Outcome<Vec<Row>> {
    let pool = new_pool(store, "experiment").await?;
    let mut rows = Vec::new();
    for (size_bytes, repeat) in SIZES {
        let repeat = if quick { repeat / 100 } else { repeat };
        eprintln!("published experiment: {repeat} x {size_bytes} bytes, {rounds} rounds");
        let object = ObjectId::new(format!("object-{size_bytes}"))?;
        let data = noise(size_bytes);
        let expected = md5(&data);
        pool.write_full(&object, data).await?;
        let ours = StoreInput { repeat }.encode();
        // The OSDs load a class when it is first called.
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
        rows.push(Row {
            size_bytes,
            repeat,
            class_s: median(class_s),
            plain_s: plain.then(|| median(plain_s)),
            client_s: median(client_s),
        });
    }
    Ok(rows)
}

async fn call(pool: &dyn Pool, object: &ObjectId, class: &str, input: String) -> Outcome<f64> {
    let call = ClassCall { class: class.to_owned(), method: "md5".to_owned(), input: input.into() };
    let started_at = Instant::now();
    pool.exec(object, call).await?;
    Ok(seconds(started_at))
}

async fn client(pool: &dyn Pool, object: &ObjectId, repeat: u32) -> Outcome<f64> {
    let started_at = Instant::now();
    for _ in 0..repeat {
        let (stat, _) = pool.stat(object).await?;
        let digest = md5(&pool.read_range(object, 0, stat.size_bytes).await?);
        pool.write(object, WriteOp::new().set_xattr(Algorithm::Md5.xattr(), digest)).await?;
    }
    Ok(seconds(started_at))
}

/// A fast wrong digest is no result.
async fn check(pool: &dyn Pool, object: &ObjectId, xattr: &str, expected: &str) -> Outcome {
    let stored = pool.get_xattr(object, xattr).await?;
    if stored == expected {
        Ok(())
    } else {
        Err(format!("{xattr} is wrong: {stored:?}, not {expected}").into())
    }
}

/// By the hasher of the class.
fn md5(data: &[u8]) -> String {
    let mut hasher = Hasher::new(Algorithm::Md5);
    hasher.update(data);
    hasher.finish()
}
