//! A bucket with many keys: the rates of PUT and DELETE, pages, single keys, disk and memory. It is
//! measured at a hundredth, a tenth and all of its keys, so that the table shows how each cost
//! grows.

use crate::Setting;
use crate::client::Client;
use crate::load::{Until, run as load};
use crate::servers::{BUCKET, Server, path};
use bench_harness::process::output;
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, median, seconds, start};
use bytes::Bytes;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const CONNECTIONS: u64 = 64;
/// Keys in each "directory".
const KEYS_EACH: u64 = 100;
/// The prefix of the section's keys.
const PREFIX: &str = "all";
/// Time of the requests for random keys, in seconds.
const SECONDS_EACH: f64 = 2.0;
/// An odd number whose multiples are in no order: 2^64 divided by the golden ratio.
const SCATTER: u64 = 0x9e37_79b9_7f4a_7c15;

/// Puts objects of one byte each below `prefix`, `KEYS_EACH` in each "directory": those with these
/// numbers. Returns the number of objects per second.
pub async fn fill(server: &Server, numbers: Range<u64>, prefix: &str) -> Outcome<f64> {
    call_each(server, "PUT", numbers, prefix, Bytes::from_static(b"x")).await
}

/// Sends a request for each key. Returns the number of requests per second.
async fn call_each(
    server: &Server,
    method: &str,
    numbers: Range<u64>,
    prefix: &str,
    body: Bytes,
) -> Outcome<f64> {
    let until = Until { seconds: f64::INFINITY, count: numbers.end - numbers.start };
    let done = load(&server.target, CONNECTIONS, until, async |client, number| {
        let path = key_path(prefix, numbers.start + number);
        Ok(client.call(method, &path, "", body.clone()).await?.first_byte)
    })
    .await?;
    Ok(done.per_second())
}

/// The path of the object with this number.
fn key_path(prefix: &str, number: u64) -> String {
    path(&format!("{prefix}/{:06}/{:03}", number / KEYS_EACH, number % KEYS_EACH))
}

/// Lists one page of at most 1,000 entries. Returns the time to the first byte, the number of
/// entries, and the token of the next page.
pub async fn page(
    client: &mut Client,
    prefix: &str,
    delimiter: Option<&str>,
    token: Option<&str>,
) -> Outcome<(Duration, u64, Option<String>)> {
    let mut arguments = String::new();
    if let Some(token) = token {
        arguments.push_str(&format!("continuation-token={}&", escaped(token)));
    }
    if let Some(delimiter) = delimiter {
        arguments.push_str(&format!("delimiter={}&", escaped(delimiter)));
    }
    arguments.push_str(&format!("list-type=2&max-keys=1000&prefix={}", escaped(prefix)));
    let bucket = path("");
    let answer = client.call("GET", bucket.trim_end_matches('/'), &arguments, Bytes::new()).await?;
    let text = std::str::from_utf8(&answer.body)?;
    let count =
        element(text, "KeyCount").ok_or_else(|| format!("the list has no KeyCount: {text}"))?.parse()?;
    Ok((answer.first_byte, count, element(text, "NextContinuationToken").map(str::to_owned)))
}

pub fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

pub fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(byte).to_string()
            }
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

/// Lists all pages and returns their times in milliseconds. There must be `wanted` entries.
async fn all_pages(server: &Server, delimiter: Option<&str>, wanted: u64) -> Outcome<Vec<f64>> {
    let mut client = server.client();
    let prefix = format!("{PREFIX}/");
    let (mut token, mut count, mut milliseconds) = (None, 0, Vec::new());
    loop {
        let stopwatch = start();
        let (_, more, next) = page(&mut client, &prefix, delimiter, token.as_deref()).await?;
        milliseconds.push(seconds(stopwatch) * 1_000.0);
        (count, token) = (count + more, next);
        if token.is_none() {
            break;
        }
    }
    if count != wanted {
        return Err(format!("the pages list {count} of {wanted} entries").into());
    }
    Ok(milliseconds)
}

fn row(what: impl Into<String>, unit: &'static str, value: f64) -> Row {
    Row::alone(what, unit, vec![value], Aim::None)
}

/// Measures the bucket when it has `keys` keys: memory, pages, and single keys.
async fn measure(setting: &Setting, server: &Server, keys: u64) -> Outcome<Vec<Row>> {
    let mut rows = vec![row(format!("memory, {keys} keys"), "MiB", server.memory_mib("VmRSS:")?)];
    let pages = all_pages(server, None, keys).await?;
    // A twentieth of the pages at each place.
    let count = (pages.len() / 20).max(1);
    let last = pages.len() - count;
    for (place, at) in [("start", 0), ("middle", last / 2), ("end", last)] {
        let what = format!("a page of a thousand keys at the {place}, {keys} keys");
        rows.push(row(what, "ms", median(pages[at..at + count].to_vec())));
    }
    let seconds = if setting.quick { SECONDS_EACH / 10.0 } else { SECONDS_EACH };
    for method in ["HEAD", "GET"] {
        let until = Until { seconds, count: u64::MAX };
        let measured = load(&server.target, 1, until, async |client, number| {
            let path = key_path(PREFIX, number.wrapping_mul(SCATTER) % keys);
            Ok(client.call(method, &path, "", Bytes::new()).await?.first_byte)
        })
        .await?;
        let name = |quantile: &str| format!("{method} of a random key, {quantile}, {keys} keys");
        rows.push(row(name("p50"), "ms", measured.first_byte_ms(0.5)));
        rows.push(row(name("p99"), "ms", measured.p99_ms()));
    }
    Ok(rows)
}

/// Bytes of the disk that the files of a directory take, or a file.
fn disk_bytes(path: &Path) -> Outcome<u64> {
    // The store may have removed the file since its directory was read.
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(0) };
    let mut bytes = metadata.blocks() * 512;
    if metadata.is_dir() {
        for entry in fs::read_dir(path)? {
            bytes += disk_bytes(&entry?.path())?;
        }
    }
    Ok(bytes)
}

/// Bytes of the store's data file, of its key-value store, and of its log.
fn store_bytes(setting: &Setting) -> Outcome<[f64; 3]> {
    let mut bytes = [0.0; 3];
    for (bytes, name) in bytes.iter_mut().zip(["data", "kv", "log"]) {
        *bytes = disk_bytes(&setting.dir.join("store").join(name))? as f64;
    }
    Ok(bytes)
}

pub async fn run(setting: &Setting, server: &Server) -> Outcome<Section> {
    let keys = setting.keys;
    // The last tenth shows whether the rate falls.
    let [few, many, most] = [keys / 100, keys / 10, keys - keys / 10];
    let mut rows = Vec::new();
    let mut put_seconds = 0.0;
    let mut before = [0.0; 3];
    for (first, end) in [(0, few), (few, many), (many, most), (most, keys)] {
        let per_second = fill(server, first..end, PREFIX).await?;
        put_seconds += (end - first) as f64 / per_second;
        rows.push(row(format!("PUT of a byte, keys {first} to {end}"), "/s", per_second));
        if end != most {
            rows.extend(measure(setting, server, end).await?);
        }
        if end == many {
            before = store_bytes(setting)?;
            let stopwatch = start();
            let mut check = Command::new(&setting.benthic_s3);
            output(check.args(&server.options).args(["bucket", "check", BUCKET]))?;
            rows.push(row(format!("`bucket check` of {many} keys"), "s", seconds(stopwatch)));
        }
    }
    let after = store_bytes(setting)?;
    let per_key = |at: usize| (after[at] - before[at]) / (keys - many) as f64;
    rows.push(row("data on the disk", "bytes per key", per_key(0)));
    rows.push(row("index and metadata on the disk", "bytes per key", per_key(1)));
    rows.push(row("log on the disk", "MiB", after[2] / f64::from(1 << 20)));
    let what = format!("PUT of {keys} keys of a byte, {CONNECTIONS} connections");
    rows.push(row(what, "/s", keys as f64 / put_seconds));
    for (what, delimiter, wanted) in [
        ("a page of a thousand keys", None, keys),
        ("a page of a thousand \"directories\"", Some("/"), keys.div_ceil(KEYS_EACH)),
    ] {
        let mut milliseconds = Vec::new();
        for _ in 0..setting.rounds {
            let pages = all_pages(server, delimiter, wanted).await?;
            milliseconds.push(pages.iter().sum::<f64>() / pages.len() as f64);
        }
        rows.push(Row::alone(what, "ms", milliseconds, Aim::None));
    }
    let deleted = call_each(server, "DELETE", most..keys, PREFIX, Bytes::new()).await?;
    rows.push(row(format!("DELETE of the last {} keys", keys - most), "/s", deleted));
    rows.push(row("most memory of the gateway", "MiB", server.memory_mib("VmHWM:")?));
    let note = format!(
        "An embedded store: {keys} keys in one bucket, {KEYS_EACH} in a \"directory\"; all of it is listed. PUT and DELETE \
        on {CONNECTIONS} connections, single keys on one. Bytes per key are those that the last {} keys added.",
        keys - many
    );
    Ok(Section { title: "A bucket of very many keys", note, rows })
}
