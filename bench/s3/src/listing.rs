//! Lists of a bucket with many keys.

use crate::Setting;
use crate::client::Client;
use crate::load::{Until, run as load};
use crate::servers::{Server, path};
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, seconds, start};
use bytes::Bytes;
use std::time::Duration;

const CONNECTIONS: u64 = 64;
/// Keys in each "directory".
const KEYS_EACH: u64 = 100;

/// Puts `keys` objects of one byte each below `prefix`, `KEYS_EACH` in each "directory".
pub async fn fill(server: &Server, keys: u64, prefix: &str) -> Outcome {
    let until = Until { seconds: f64::INFINITY, count: keys };
    load(&server.target, CONNECTIONS, until, async |client, number| {
        let key = format!("{prefix}/{:06}/{:03}", number / KEYS_EACH, number % KEYS_EACH);
        Ok(client.call("PUT", &path(&key), "", Bytes::from_static(b"x")).await?.first_byte)
    })
    .await?;
    Ok(())
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

pub async fn run(setting: &Setting, server: &Server) -> Outcome<Section> {
    let stopwatch = start();
    fill(server, setting.keys, "all").await?;
    let fill_seconds = seconds(stopwatch);
    let mut rows = vec![Row::alone(
        format!("PUT of {} keys of a byte, {CONNECTIONS} connections", setting.keys),
        "/s",
        vec![setting.keys as f64 / fill_seconds],
        Aim::None,
    )];
    for (what, delimiter, wanted) in [
        ("a page of a thousand keys", None, setting.keys),
        ("a page of a thousand \"directories\"", Some("/"), setting.keys.div_ceil(KEYS_EACH)),
    ] {
        let mut milliseconds = Vec::new();
        for _ in 0..setting.rounds {
            let mut client = server.client();
            let (mut token, mut count, mut pages) = (None, 0, 0);
            let stopwatch = start();
            loop {
                let (_, more, next) = page(&mut client, "all/", delimiter, token.as_deref()).await?;
                (count, pages, token) = (count + more, pages + 1, next);
                if token.is_none() {
                    break;
                }
            }
            if count != wanted {
                return Err(format!("the pages list {count} of {wanted} entries").into());
            }
            milliseconds.push(seconds(stopwatch) * 1_000.0 / f64::from(pages));
        }
        rows.push(Row::alone(what, "ms", milliseconds, Aim::None));
    }
    rows.push(Row::alone("most memory of the gateway", "MiB", vec![server.memory_mib("VmHWM:")?], Aim::None));
    let note = format!(
        "An embedded store: {} keys in one bucket, {KEYS_EACH} in a \"directory\"; all of it is listed.",
        setting.keys
    );
    Ok(Section { title: "A bucket of very many keys", note, rows })
}
