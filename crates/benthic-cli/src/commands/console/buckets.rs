//! Buckets of the S3 gateway: `benthic s3`.

use crate::commands::console::query::Query;
use crate::commands::console::reply::{Reply, json_reply};
use crate::commands::console::router::Console;
use crate::commands::other;
use benthic_core::Result;
use serde_json::{Value, json};
use std::ffi::OsString;

const BUCKETS_MAX: usize = 10_000;
const KEYS_DEFAULT: usize = 100;
const KEYS_MAX: usize = 1_000;

fn args(console: &Console<'_>, verbs: &[&str]) -> Vec<OsString> {
    let pool = format!("--pool={}", console.s3_pool);
    ["s3", &pool].iter().chain(verbs).map(OsString::from).collect()
}

/// The buckets of all accounts, and the access keys, without their secrets.
pub async fn list(console: &Console<'_>) -> Result<Reply> {
    let buckets = console.children.run(&other::S3, args(console, &["bucket", "ls"]), BUCKETS_MAX);
    let keys = console.children.run(&other::S3, args(console, &["key", "ls"]), BUCKETS_MAX);
    let (buckets, keys) = futures::try_join!(buckets, keys)?;
    Ok(json_reply(&json!({
        "buckets": buckets.values::<Value>()?,
        "access_keys": keys.values::<Value>()?,
        "truncated": buckets.is_cut || keys.is_cut,
    })))
}

pub async fn show(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let args = args(console, &["bucket", "stat", "--", query.needed("bucket")?]);
    Ok(json_reply(&console.children.run(&other::S3, args, 1).await?.value()?))
}

/// A page of the keys of a bucket.
pub async fn keys(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let keys_max = query.number("limit", KEYS_DEFAULT, KEYS_MAX)?;
    let (limit, prefix) = (format!("--limit={}", keys_max + 1), format!("--prefix={}", query.text("prefix")));
    let after = format!("--after={}", query.text("after"));
    let mut verbs = vec!["bucket", "keys", limit.as_str(), prefix.as_str()];
    if !query.text("after").is_empty() {
        verbs.push(&after);
    }
    verbs.extend(["--", query.needed("bucket")?]);
    let printed = console.children.run(&other::S3, args(console, &verbs), keys_max).await?;
    let keys: Vec<Value> = printed.values()?;
    let next = keys.last().filter(|_| printed.is_cut).map(|key| key["key"].clone());
    Ok(json_reply(&json!({ "keys": keys, "next": next })))
}
