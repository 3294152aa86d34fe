//! Memory of a gateway with many connections, and its speed beside many idle ones.
//!
//! Each part starts both gateways anew, because freed memory stays with a process.

use crate::Setting;
use crate::load::{Until, run as load};
use crate::objects::get;
use crate::servers::{Server, path};
use bench_harness::report::{Aim, Section};
use bench_harness::{Outcome, noise};
use bytes::Bytes;
use std::fs;

/// Options of our gateway. By default, it takes 1,024 connections, and closes those that are idle
/// for a minute.
pub const SERVE: [&str; 4] = ["--connections-max", "16384", "--timeout", "600"];

const SECONDS: f64 = 10.0;
const IDLE: [u64; 2] = [1_000, 10_000];
/// Connections that are busy while the others are idle.
const BESIDE_IDLE: [u64; 2] = [1, 16];
const BUSY: [Busy; 3] = [
    Busy { connections: 256, size: "1 MiB", size_bytes: 1 << 20, memory: Aim::AtMost(350.0) },
    Busy { connections: 1_000, size: "64 KiB", size_bytes: 64 << 10, memory: Aim::None },
    Busy { connections: 1_000, size: "1 MiB", size_bytes: 1 << 20, memory: Aim::None },
];
/// Limit on the bytes that a part writes, so that the data fits the file system.
const WRITTEN_MAX_BYTES: u64 = 4 << 30;
/// Open files of a process besides its idle connections: busy connections, the store, libraries.
const OTHER_FILES: u64 = 200;

/// Connections that write and read objects of one size.
struct Busy {
    connections: u64,
    size: &'static str,
    size_bytes: usize,
    memory: Aim,
}

/// Name of a row, unit, aim and value.
type Value = (String, &'static str, Aim, f64);

/// Measures idle connections first, then busy ones.
pub async fn run(
    setting: &Setting,
    ours: impl AsyncFn() -> Outcome<Server>,
    others: impl AsyncFn() -> Outcome<Server>,
) -> Outcome<Section> {
    check_open_files(setting)?;
    let note = format!(
        "Resident memory of the gateway, over an embedded store; the reference is versitygw. Our gateway has the options `{}`. \
        The run fails if a request fails, or if a gateway closes an idle connection.",
        SERVE.join(" ")
    );
    let mut section = Section { title: "Memory", note, rows: Vec::new() };
    for busy in [None].into_iter().chain(BUSY.iter().map(Some)) {
        let server = ours().await?;
        let measured = measure(setting, &server, busy).await?;
        drop(server);
        let server = others().await?;
        let reference = measure(setting, &server, busy).await?;
        drop(server);
        for ((what, unit, aim, ours), (.., reference)) in measured.into_iter().zip(reference) {
            section.push(what, unit, aim, [ours], [reference]);
        }
    }
    Ok(section)
}

/// Fails early if this process, or a gateway that it starts, may not open enough files.
fn check_open_files(setting: &Setting) -> Outcome {
    let wanted = scaled(setting, IDLE[1]) + OTHER_FILES;
    let limits = fs::read_to_string("/proc/self/limits")?;
    let values = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let soft = values.and_then(|values| values.split_whitespace().next()).ok_or("no limit on open files")?;
    // A value that is no number is `unlimited`.
    if soft.parse::<u64>().is_ok_and(|max| max < wanted) {
        let message = "too few open files are allowed; raise the limit, for example with `ulimit -n 16384`";
        return Err(format!("{message} open_files_max={soft} open_files_wanted={wanted}").into());
    }
    Ok(())
}

fn scaled(setting: &Setting, count: u64) -> u64 {
    if setting.quick { count / 10 } else { count }
}

fn seconds(setting: &Setting) -> f64 {
    if setting.quick { SECONDS / 10.0 } else { SECONDS }
}

async fn measure(setting: &Setting, server: &Server, busy: Option<&Busy>) -> Outcome<Vec<Value>> {
    match busy {
        None => measure_idle(setting, server).await,
        Some(busy) => measure_busy(setting, server, busy).await,
    }
}

async fn measure_idle(setting: &Setting, server: &Server) -> Outcome<Vec<Value>> {
    eprintln!("{}: idle connections", server.name);
    let (key, content) = (path("small"), Bytes::from(noise(1 << 10)));
    let object = (key.as_str(), &content);
    server.client().call("PUT", &key, "", content.clone()).await?;
    let resident =
        |what: String| -> Outcome<Value> { Ok((what, "MiB", Aim::None, server.memory_mib("VmRSS:")?)) };
    let mut values = vec![resident("after the start".to_owned())?];
    let alone = measure_speed(setting, server, object, 0).await?;
    let mut clients = Vec::new();
    for count in IDLE.map(|count| scaled(setting, count)) {
        while (clients.len() as u64) < count {
            let mut client = server.client();
            get(&mut client, &key, &content).await?;
            clients.push(client);
        }
        values.push(resident(format!("{count} idle connections"))?);
    }
    values.extend(alone);
    values.extend(measure_speed(setting, server, object, clients.len()).await?);
    let closed = clients.iter().filter(|client| !client.is_connected()).count();
    if closed > 0 {
        return Err(format!("{} closed {closed} of {} idle connections", server.name, clients.len()).into());
    }
    Ok(values)
}

/// Measures the speed of a few connections while `idle` others are open.
async fn measure_speed(
    setting: &Setting,
    server: &Server,
    (key, content): (&str, &Bytes),
    idle: usize,
) -> Outcome<Vec<Value>> {
    let until = Until { seconds: seconds(setting) / 2.0, count: u64::MAX };
    let mut values = Vec::new();
    for connections in BESIDE_IDLE {
        let measured =
            load(&server.target, connections, until, async |client, _| get(client, key, content).await)
                .await?;
        let name = format!("GET of 1 KiB, {connections} connections beside {idle} idle ones");
        values.push((format!("{name}, p99"), "ms", Aim::None, measured.p99_ms()));
        values.push((name, "/s", Aim::None, measured.per_second()));
    }
    Ok(values)
}

async fn measure_busy(setting: &Setting, server: &Server, busy: &Busy) -> Outcome<Vec<Value>> {
    let connections = scaled(setting, busy.connections);
    eprintln!("{}: {connections} busy connections, {}", server.name, busy.size);
    let content = Bytes::from(noise(busy.size_bytes));
    let count = WRITTEN_MAX_BYTES / busy.size_bytes as u64;
    let until = Until { seconds: seconds(setting), count };
    let measured = load(&server.target, connections, until, async |client, number| {
        let path = path(&format!("busy/{number}"));
        client.call("PUT", &path, "", content.clone()).await?;
        get(client, &path, &content).await
    })
    .await?;
    let name = |what: &str| format!("{connections} connections that write and read {}, {what}", busy.size);
    Ok(vec![
        (name("at most"), "MiB", busy.memory, server.memory_mib("VmHWM:")?),
        (name("objects"), "/s", Aim::None, measured.per_second()),
        (name("p99 of both"), "ms", Aim::None, measured.p99_ms()),
    ])
}
