//! Objects of several sizes, written, read and deleted over several numbers of connections.

use crate::client::{Answer, Client};
use crate::load::{Load, Until, run as load};
use crate::servers::{Server, path};
use crate::{Setting, listing};
use bench_harness::report::{Aim, Section};
use bench_harness::{Outcome, is_wanted, noise};
use bytes::Bytes;
use std::time::Duration;

const CONNECTIONS: [u64; 3] = [1, 16, 64];
pub const SIZES: [Size; 4] = [
    Size { name: "4 KiB", size_bytes: 4 << 10, connections_max: 64 },
    Size { name: "64 KiB", size_bytes: 64 << 10, connections_max: 64 },
    Size { name: "1 MiB", size_bytes: 1 << 20, connections_max: 64 },
    Size { name: "64 MiB", size_bytes: 64 << 20, connections_max: 16 },
];
const SECONDS_EACH: f64 = 2.0;
/// Limit on the bytes that one load writes, so that the data fits the file system.
const WRITTEN_MAX_BYTES: u64 = 1 << 30;
const PARTS: u64 = 8;
const PART_BYTES: usize = 8 << 20;
const LISTED_KEYS: u64 = 5_000;

/// Titles of an engine's tables, and its targets.
#[derive(Clone, Copy)]
pub struct Engine {
    titles: [&'static str; SIZES.len() + 2],
    aims: Aims,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Aims {
    None,
    All,
    Ceph,
    Encryption,
}

macro_rules! titles {
    ($place:literal) => {
        [
            concat!($place, ": objects of 4 KiB"),
            concat!($place, ": objects of 64 KiB"),
            concat!($place, ": objects of 1 MiB"),
            concat!($place, ": objects of 64 MiB"),
            concat!($place, ": 64 MiB in 8 parts"),
            concat!($place, ": lists of a thousand keys"),
        ]
    };
}

pub const ON_CEPH: Engine = Engine { titles: titles!("Ceph"), aims: Aims::Ceph };
pub const ERASURE_CODED: Engine = Engine { titles: titles!("Erasure-coded"), aims: Aims::None };
pub const ON_A_DIRECTORY: Engine = Engine { titles: titles!("Disk"), aims: Aims::None };
pub const IN_MEMORY: Engine = Engine { titles: titles!("Memory"), aims: Aims::All };
pub const ENCRYPTED: Engine = Engine { titles: titles!("Encryption"), aims: Aims::Encryption };

pub struct Size {
    pub name: &'static str,
    size_bytes: usize,
    connections_max: u64,
}

impl Engine {
    fn rate(self, size_bytes: usize) -> Aim {
        match (self.aims, size_bytes >> 10) {
            (Aims::All, _) | (Aims::Ceph, 65_536) => Aim::OfReference(1.0),
            (Aims::Ceph, 64) => Aim::OfReference(1.5),
            (Aims::Encryption, 1_024..) => Aim::OfReference(0.7),
            _ => Aim::None,
        }
    }

    fn time(self, size_bytes: usize) -> Aim {
        let has_aims = self.aims == Aims::Ceph && size_bytes == 64 << 10;
        if has_aims { Aim::AtMostOfReference(1.0) } else { Aim::None }
    }
}

/// Measures two servers, which are restarted for every round.
pub async fn run(
    setting: &Setting,
    engine: Engine,
    note: &str,
    ours: impl AsyncFn() -> Outcome<Server>,
    others: impl AsyncFn() -> Outcome<Server>,
) -> Outcome<Vec<Section>> {
    let mut sections = engine.titles.map(|title| Section { title, note: note.to_owned(), rows: Vec::new() });
    for round in 0..setting.rounds {
        let servers = [ours().await?, others().await?];
        if round == 0 {
            let reference = format!(" Reference: {}.", servers[1].name);
            sections.iter_mut().for_each(|section| section.note.push_str(&reference));
        }
        // Warm up: the first use creates pools of radosgw, for example.
        for server in &servers {
            objects(setting, server, &Bytes::from_static(b"x"), CONNECTIONS[1]).await?;
        }
        for (size, section) in SIZES.iter().zip(&mut sections) {
            if !is_wanted(&setting.sizes, size.name) {
                continue;
            }
            let content = Bytes::from(noise(size.size_bytes));
            for connections in CONNECTIONS.into_iter().filter(|&count| count <= size.connections_max) {
                for side in sides(round) {
                    eprintln!("round {} {} {} x {connections}", round + 1, servers[side].name, size.name);
                    let [put, get, delete] = objects(setting, &servers[side], &content, connections).await?;
                    let rate = engine.rate(size.size_bytes);
                    let time = engine.time(size.size_bytes);
                    let mut add = |what: &str, unit, aim, value| {
                        push(section, side, format!("{what}, {connections} connections"), unit, aim, value);
                    };
                    add("PUT", "/s", rate, put.per_second());
                    add("PUT p99", "ms", time, put.p99_ms());
                    add("GET", "/s", rate, get.per_second());
                    add("GET first byte p50", "ms", Aim::None, get.first_byte_ms(0.5));
                    add("GET first byte p99", "ms", Aim::None, get.first_byte_ms(0.99));
                    add("GET p99", "ms", time, get.p99_ms());
                    add("DELETE", "/s", Aim::None, delete.per_second());
                }
            }
        }
        let [.., parts, lists] = &mut sections;
        for connections in [1, 4] {
            for side in sides(round) {
                let load = uploads(setting, &servers[side], connections).await?;
                let name = format!("uploads, {connections} connections");
                let wanted = engine.rate(64 << 20);
                push(parts, side, name, "MiB/s", wanted, load.per_second() * 64.0);
            }
        }
        for server in &servers {
            listing::fill(server, 0..LISTED_KEYS, "listed").await?;
        }
        for connections in [1, 16] {
            for side in sides(round) {
                let until = until(setting, 1);
                let pages = load(&servers[side].target, connections, until, async |client, _| {
                    Ok(listing::page(client, "listed/", None, None).await?.0)
                })
                .await?;
                let name = |what: &str| format!("{what}, {connections} connections");
                push(lists, side, name("LIST"), "/s", Aim::None, pages.per_second());
                push(lists, side, name("LIST p99"), "ms", Aim::None, pages.p99_ms());
            }
        }
    }
    Ok(sections.into_iter().filter(|section| !section.rows.is_empty()).collect())
}

/// Adds a value of one side: side 0 is ours, side 1 the reference.
fn push(section: &mut Section, side: usize, name: String, unit: &'static str, aim: Aim, value: f64) {
    let [ours, reference] = if side == 0 { [Some(value), None] } else { [None, Some(value)] };
    section.push(name, unit, aim, ours, reference);
}

/// The order of the sides alternates between rounds.
fn sides(round: usize) -> [usize; 2] {
    if round.is_multiple_of(2) { [0, 1] } else { [1, 0] }
}

fn until(setting: &Setting, size_bytes: usize) -> Until {
    let seconds = if setting.quick { SECONDS_EACH / 10.0 } else { SECONDS_EACH };
    Until { seconds, count: WRITTEN_MAX_BYTES / size_bytes as u64 }
}

async fn objects(
    setting: &Setting,
    server: &Server,
    content: &Bytes,
    connections: u64,
) -> Outcome<[Load; 3]> {
    let prefix = format!("p{}", setting.next_number());
    let key = |number: u64| path(&format!("{prefix}/{number:08}"));
    let until = until(setting, content.len());
    let put = load(&server.target, connections, until, async |client, number| {
        Ok(client.call("PUT", &key(number), "", content.clone()).await?.first_byte)
    })
    .await?;
    let get = load(&server.target, connections, until, async |client, number| {
        get(client, &key(number % put.count()), content).await
    })
    .await?;
    let all = Until { seconds: f64::INFINITY, count: put.count() };
    let delete = load(&server.target, connections, all, async |client, number| {
        Ok(client.call("DELETE", &key(number), "", Bytes::new()).await?.first_byte)
    })
    .await?;
    Ok([put, get, delete])
}

/// Reads an object and compares every byte.
pub async fn get(client: &mut Client, path: &str, content: &Bytes) -> Outcome<Duration> {
    let mut offset = 0;
    let mut is_right = true;
    let (first_byte, _) = client
        .stream("GET", path, "", Bytes::new(), |part| {
            is_right &= content.get(offset..offset + part.len()) == Some(&part[..]);
            offset += part.len();
        })
        .await?;
    if is_right && offset == content.len() {
        Ok(first_byte)
    } else {
        Err(format!("{path} returned other bytes than were written").into())
    }
}

async fn uploads(setting: &Setting, server: &Server, connections: u64) -> Outcome<Load> {
    let part = Bytes::from(noise(PART_BYTES));
    let prefix = format!("u{}", setting.next_number());
    let until = until(setting, PART_BYTES * PARTS as usize);
    load(&server.target, connections, until, async |client, number| {
        let path = path(&format!("{prefix}/{number:08}"));
        let created = client.call("POST", &path, "uploads=", Bytes::new()).await?;
        let id = element_of(&created, "UploadId")?;
        let mut parts = String::new();
        for number in 1..=PARTS {
            let arguments = format!("partNumber={number}&uploadId={}", listing::escaped(&id));
            let answer = client.call("PUT", &path, &arguments, part.clone()).await?;
            let tag = answer.headers.get("etag").ok_or("a part has no ETag")?.to_str()?;
            parts.push_str(&format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>"));
        }
        let parts = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        let arguments = format!("uploadId={}", listing::escaped(&id));
        Ok(client.call("POST", &path, &arguments, parts.into()).await?.first_byte)
    })
    .await
}

fn element_of(answer: &Answer, name: &str) -> Outcome<String> {
    let text = std::str::from_utf8(&answer.body)?;
    Ok(listing::element(text, name).ok_or_else(|| format!("no {name} in {text}"))?.to_owned())
}
