//! Buckets and keys of the S3 gateway: `benthic s3`.

use crate::commands::console::Console;
use crate::commands::console::query::Query;
use crate::commands::console::reply::{Reply, json_reply};
use crate::commands::other;
use benthic_core::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::time::Duration;
use tokio::time::timeout;

/// Limit on the length of an access key.
const ACCESS_KEY_BYTES_MAX: usize = 128;
/// How long a sign-in waits for other ones.
const SIGN_IN_LIMIT: Duration = Duration::from_secs(10);
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

/// Fails unless this is a key of the account whose users may sign in, with its secret.
pub async fn check_key(console: &Console<'_>, access_key: &str, secret_key: &str) -> Result<()> {
    let Some(account) = &console.account else {
        let message = "this console takes only its token; `benthic console serve --account NAME` lets the users of an \
            account sign in with their keys";
        return Err(Error::permission_denied(message));
    };
    let denied =
        |message: &'static str| Err(Error::permission_denied(message).with("access_key", access_key));
    if access_key.len() > ACCESS_KEY_BYTES_MAX || !access_key.bytes().all(|byte| byte.is_ascii_alphanumeric())
    {
        return denied("this is not an access key");
    }
    // Anybody can ask, so requests of users who are signed in keep most children.
    let slot = timeout(SIGN_IN_LIMIT, console.sign_ins.acquire()).await;
    let Ok(Ok(_slot)) = slot else {
        return Err(Error::busy("other keys are being checked; sign in again in a moment"));
    };
    let args = args(console, &["key", "check", "--", access_key]);
    let checked = console.children.run_with(&other::S3, args, 1, secret_key).await;
    let found = match checked.and_then(|printed| printed.value()) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Err(error),
        // Its details are for the operator.
        Err(error) => {
            tracing::warn!(%error, "cannot check a key");
            return Err(Error::unavailable("the console cannot check keys now"));
        }
        Ok(found) => found,
    };
    if found["account"] != account.as_str() {
        return denied("the users of this account may not sign in to this console");
    }
    // Such a user may do less in its own account than the console can in all of them.
    if found["limited"] != false {
        return denied("policies limit the rights of this user, so it may not sign in to the console");
    }
    Ok(())
}

pub async fn show(console: &Console<'_>, query: &Query) -> Result<Reply> {
    let args = args(console, &["bucket", "stat", "--", query.required("bucket")?]);
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
    verbs.extend(["--", query.required("bucket")?]);
    let printed = console.children.run(&other::S3, args(console, &verbs), keys_max).await?;
    let keys: Vec<Value> = printed.values()?;
    let next = keys.last().filter(|_| printed.is_cut).map(|key| key["key"].clone());
    Ok(json_reply(&json!({ "keys": keys, "next": next })))
}
