//! Code beside the objects of a gateway behind a slow line, against a client that fetches the
//! objects and does the same.

use crate::Setting;
use crate::client::{Answer, Client};
use crate::line::{MBIT_PER_S, ROUND_TRIP_MS};
use crate::servers::{BUCKET, Server, path};
use bench_harness::process::output;
use bench_harness::report::{Aim, Section};
use bench_harness::{Outcome, noise, seconds, start};
use bytes::Bytes;
use sha2::{Digest, Sha256};
use std::process::Command;

/// An object of 4 MiB is in one piece, so code can run on it in the store.
const SIZES: [(&str, usize); 2] = [("4 MiB", 4 << 20), ("64 MiB", 64 << 20)];
const DIGEST: &str = "x-benthic-exec=digest.compute&x-benthic-input=sha256";
/// Selects one record in 50,000.
const SELECT: &str = "<SelectObjectContentRequest xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
    <Expression>SELECT s._1 FROM S3Object s WHERE CAST(s._3 AS INT) &lt; 2</Expression><ExpressionType>SQL</ExpressionType>\
    <InputSerialization><CSV><FileHeaderInfo>NONE</FileHeaderInfo></CSV></InputSerialization>\
    <OutputSerialization><CSV/></OutputSerialization></SelectObjectContentRequest>";
/// Keys below it have a rule that stores their SHA-256 as metadata.
const WITH_RULE: &str = "with-rule";

pub async fn run(setting: &Setting, server: &Server) -> Outcome<Section> {
    let rule = ["on-put", BUCKET, "digest.compute", "--prefix", WITH_RULE, "--input", "sha256"];
    let mut command = Command::new(&setting.benthic_s3);
    output(command.args(&server.options).args(rule).args(["--metadata", "sha256"]))?;
    let note = format!(
        "A gateway with an embedded store behind a line of {MBIT_PER_S} Mbit/s and {ROUND_TRIP_MS} ms, one connection. \
        The reference fetches the object and does the same at the client; for a PUT, it then writes the result as another object."
    );
    let mut section = Section { title: "Code on GET and PUT, far away", note, rows: Vec::new() };
    let (mut near, mut far) = (server.client(), Client::new(&server.far().await?));
    for (size, len_bytes) in SIZES {
        let (content, records) = (Bytes::from(noise(len_bytes)), csv(len_bytes));
        let [blob, table] = ["blob", "table"].map(|name| path(&format!("{name}-{len_bytes}")));
        near.call("PUT", &blob, "", content.clone()).await?;
        near.call("PUT", &table, "", records).await?;
        for round in 0..setting.rounds {
            eprintln!("round {} {size}", round + 1);
            let mut push = |what: &str, at: &str, ours: f64, reference: f64| {
                let name = format!("{what} of {size}, in the {at}");
                section.push(name, "ms", Aim::None, [ours * 1e3], [reference * 1e3]);
            };
            let (answer, ours) = measure(async || far.call("GET", &blob, DIGEST, Bytes::new()).await).await?;
            let (digest, reference) = measure(async || fetch_digest(&mut far, &blob).await).await?;
            check(answer.body == digest, &blob)?;
            push("GET of the SHA-256", ran_at(&answer)?, ours, reference);

            let query = Bytes::from_static(SELECT.as_bytes());
            let (answer, ours) =
                measure(async || far.call("POST", &table, "select=&select-type=2", query.clone()).await)
                    .await?;
            let (found, reference) = measure(async || {
                let answer = far.call("GET", &table, "", Bytes::new()).await?;
                select(&answer.body)
            })
            .await?;
            check(read_records(&answer.body)? == found.as_bytes(), &table)?;
            push("Select of one record in 50,000", ran_at(&answer)?, ours, reference);

            let [ruled, plain] = [WITH_RULE, "plain"].map(|name| path(&format!("{name}-{len_bytes}")));
            let (answer, ours) = measure(async || far.call("PUT", &ruled, "", content.clone()).await).await?;
            let head = near.call("HEAD", &ruled, "", Bytes::new()).await?;
            check(
                head.headers.get("x-amz-meta-sha256").is_some_and(|found| found.as_bytes() == &digest[..]),
                &ruled,
            )?;
            let ((), reference) = measure(async || {
                far.call("PUT", &plain, "", content.clone()).await?;
                let digest = fetch_digest(&mut far, &plain).await?;
                far.call("PUT", &format!("{plain}.sha256"), "", digest).await?;
                Ok(())
            })
            .await?;
            push("PUT with the SHA-256", ran_at(&answer)?, ours, reference);
        }
    }
    Ok(section)
}

/// The result of an operation, and its time in seconds.
async fn measure<T>(operation: impl AsyncFnOnce() -> Outcome<T>) -> Outcome<(T, f64)> {
    let stopwatch = start();
    let result = operation().await?;
    Ok((result, seconds(stopwatch)))
}

fn check(is_right: bool, path: &str) -> Outcome {
    if is_right { Ok(()) } else { Err(format!("{path}: the results differ").into()) }
}

/// Where the gateway says that the code ran.
fn ran_at(answer: &Answer) -> Outcome<&str> {
    Ok(answer.headers.get("x-benthic-exec-at").ok_or("no code ran")?.to_str()?)
}

async fn fetch_digest(client: &mut Client, path: &str) -> Outcome<Bytes> {
    let answer = client.call("GET", path, "", Bytes::new()).await?;
    Ok(hex::encode(Sha256::digest(&answer.body)).into())
}

/// Records of a number, a name and another number below 100,003.
fn csv(len_bytes: usize) -> Bytes {
    let mut text = String::with_capacity(len_bytes);
    for number in 0_u64.. {
        let record = format!("{number},reef-{},{}\n", number % 997, number * 7_919 % 100_003);
        if text.len() + record.len() > len_bytes {
            break;
        }
        text.push_str(&record);
    }
    text.into()
}

/// Does what the query does.
fn select(records: &[u8]) -> Outcome<String> {
    let mut found = String::new();
    for record in std::str::from_utf8(records)?.lines() {
        let mut fields = record.split(',');
        let (first, third) = (fields.next().unwrap_or_default(), fields.nth(1).unwrap_or_default());
        if third.parse::<u64>()? < 2 {
            found.push_str(first);
            found.push('\n');
        }
    }
    Ok(found)
}

/// The records in an answer to SelectObjectContent. It consists of messages: the length of the
/// message, that of its headers, a checksum, the headers, the payload, and a checksum.
fn read_records(answer: &[u8]) -> Outcome<Vec<u8>> {
    let number = |at: usize| {
        let bytes: [u8; 4] = answer.get(at..at + 4)?.try_into().ok()?;
        usize::try_from(u32::from_be_bytes(bytes)).ok()
    };
    let message = |at: usize| {
        let (len, start) = (number(at)?, at + 12 + number(at + 4)?);
        let end = at + len;
        Some((answer.get(at + 12..start)?, answer.get(start..end.checked_sub(4)?)?, end))
    };
    let (mut records, mut at) = (Vec::new(), 0);
    while at < answer.len() {
        let (headers, payload, end) = message(at).ok_or("the answer is not a stream of events")?;
        if headers.windows(7).any(|word| word == b"Records") {
            records.extend_from_slice(payload);
        }
        at = end;
    }
    Ok(records)
}
