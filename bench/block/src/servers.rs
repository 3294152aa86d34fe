//! fio over a Unix socket: our server on an image in a directory, qemu-nbd and nbdkit on a file.

use crate::fio::{self, Measured};
use crate::{Setting, fresh};
use bench_harness::process::output;
use bench_harness::report::{Aim, Section};
use bench_harness::{Outcome, pause};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const SIDES: [&str; 3] = ["benthic", "qemu-nbd", "nbdkit"];

struct Workload {
    rw: &'static str,
    block: &'static str,
    depth: u32,
    /// Operations between two syncs; 0 for none.
    fsync: u32,
    /// Wanted share of the reference's rate.
    wanted: f64,
}

const READ: f64 = 0.9;
const WRITE: f64 = 0.7;

const WORKLOADS: [Workload; 14] = [
    // The first one fills the disk.
    Workload { rw: "write", block: "1m", depth: 4, fsync: 0, wanted: READ },
    Workload { rw: "read", block: "1m", depth: 4, fsync: 0, wanted: READ },
    Workload { rw: "randread", block: "4k", depth: 1, fsync: 0, wanted: READ },
    Workload { rw: "randread", block: "4k", depth: 16, fsync: 0, wanted: READ },
    Workload { rw: "randread", block: "4k", depth: 64, fsync: 0, wanted: READ },
    Workload { rw: "randwrite", block: "4k", depth: 1, fsync: 0, wanted: WRITE },
    Workload { rw: "randwrite", block: "4k", depth: 16, fsync: 0, wanted: WRITE },
    Workload { rw: "randwrite", block: "4k", depth: 64, fsync: 0, wanted: WRITE },
    Workload { rw: "randwrite", block: "4k", depth: 1, fsync: 32, wanted: WRITE },
    Workload { rw: "randwrite", block: "4k", depth: 16, fsync: 32, wanted: WRITE },
    Workload { rw: "randwrite", block: "4k", depth: 64, fsync: 32, wanted: WRITE },
    Workload { rw: "randrw", block: "4k", depth: 1, fsync: 32, wanted: WRITE },
    Workload { rw: "randrw", block: "4k", depth: 16, fsync: 32, wanted: WRITE },
    Workload { rw: "randrw", block: "4k", depth: 64, fsync: 32, wanted: WRITE },
];

impl Workload {
    fn name(&self) -> String {
        let sync = if self.fsync > 0 { format!(", sync every {}", self.fsync) } else { String::new() };
        format!("{} {}, depth {}{sync}", self.block, self.rw, self.depth)
    }
}

/// A server that serves one disk of 1 GiB. Dropping it kills it.
struct Server {
    process: Child,
    uri: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

pub fn version(program: &str) -> Outcome<String> {
    let printed = String::from_utf8(output(Command::new(program).arg("--version"))?)?;
    Ok(printed.lines().next().unwrap_or_default().to_owned())
}

fn start(setting: &Setting, side: &str) -> Outcome<Server> {
    let socket = setting.dir.join("s").display().to_string();
    let file = setting.dir.join("disk.raw");
    let mut command = match side {
        "benthic" => {
            let store = format!("file:{}", setting.dir.join("store").display());
            for args in [&["pool", "create", "p"][..], &["image", "create", "p/i", "--size", "1GiB"]] {
                output(Command::new(&setting.benthic).args(["--store", &store]).args(args))?;
            }
            let mut command = Command::new(&setting.benthic);
            command.args(["--store", &store, "image", "serve", "--listen", &format!("unix:{socket}"), "p/i"]);
            command
        }
        "qemu-nbd" => {
            std::fs::File::create(&file)?.set_len(1 << 30)?;
            let mut command = Command::new("qemu-nbd");
            command.args([
                "-f",
                "raw",
                "-t",
                "-x",
                "p/i",
                "--cache=writeback",
                "--aio=threads",
                "-k",
                &socket,
            ]);
            command.arg(&file);
            command
        }
        _ => {
            std::fs::File::create(&file)?.set_len(1 << 30)?;
            let mut command = Command::new("nbdkit");
            command.args(["-f", "-U", &socket, "file"]).arg(&file);
            command
        }
    };
    let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let server = Server { process, uri: format!("nbd+unix:///p/i?socket={socket}") };
    for _ in 0..200 {
        if Path::new(&socket).exists() {
            return Ok(server);
        }
        pause(Duration::from_millis(50));
    }
    Err(format!("{side} does not listen").into())
}

fn measure(setting: &Setting, server: &Server, workload: &Workload) -> Outcome<Measured> {
    let seconds = if setting.quick { 1 } else { 5 };
    let mut command = Command::new("fio");
    command.args(["--name=bench", "--ioengine=nbd", "--size=1g", "--time_based", "--randseed=7"]);
    command.arg(format!("--uri={}", server.uri)).arg(format!("--runtime={seconds}"));
    command.arg(format!("--rw={}", workload.rw)).arg(format!("--bs={}", workload.block));
    command.arg(format!("--iodepth={}", workload.depth));
    if workload.fsync > 0 {
        command.arg(format!("--fsync={}", workload.fsync));
    }
    fio::measure(command.current_dir(&setting.dir))
}

pub fn run(setting: &Setting) -> Outcome<Vec<(&'static str, Section)>> {
    let note = |reference: &str| {
        format!(
            "fio over a Unix socket, a disk of 1 GiB that the first workload fills, 5 s for each workload; {reference} \
            serves a file with the page cache, without checksums and snapshots. For reads and writes at once, the \
            slower direction counts for the 99th percentile."
        )
    };
    let section = |title, reference| Section { title, note: note(reference), rows: Vec::new() };
    let mut qemu = section("Against qemu-nbd", "qemu-nbd");
    let mut nbdkit = section("Against nbdkit", "nbdkit");
    for round in 0..setting.rounds {
        let mut measured = Vec::new();
        for number in 0..SIDES.len() {
            let side = SIDES[(number + round) % SIDES.len()];
            eprintln!("    round {}: {side}", round + 1);
            fresh(setting)?;
            let server = start(setting, side)?;
            let results: Outcome<Vec<_>> =
                WORKLOADS.iter().map(|workload| measure(setting, &server, workload)).collect();
            drop(server);
            measured.push((side, results?));
        }
        let of = |side: &str| measured.iter().find(|(name, _)| *name == side).map(|(_, results)| results);
        let (Some(ours), Some(of_qemu), Some(of_nbdkit)) = (of("benthic"), of("qemu-nbd"), of("nbdkit"))
        else {
            return Err("a side is missing".into());
        };
        for (section, reference) in [(&mut qemu, of_qemu), (&mut nbdkit, of_nbdkit)] {
            for (at, workload) in WORKLOADS.iter().enumerate() {
                let (ours, reference) = (&ours[at], &reference[at]);
                section.push(
                    workload.name(),
                    "/s",
                    Aim::OfReference(workload.wanted),
                    [ours.iops],
                    [reference.iops],
                );
                let name = format!("{}: p99", workload.name());
                section.push(name, "µs", Aim::AtMostOfReference(1.5), [ours.p99_us], [reference.p99_us]);
            }
        }
    }
    std::fs::remove_dir_all(&setting.dir)?;
    Ok(vec![("qemu-nbd", qemu), ("nbdkit", nbdkit)])
}
