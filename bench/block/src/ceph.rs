//! An image on a Ceph cluster: our program and our NBD server beside fio's own RBD engine and
//! qemu-nbd. All of them use librbd and the same image, one after the other.

use crate::fio::{self, Measured};
use crate::{Setting, snapshots};
use bench_harness::cluster::Cluster;
use bench_harness::process::run as run_command;
use bench_harness::report::{Aim, Section};
use bench_harness::{Outcome, pause};
use benthic_block::{CreateOptions, Geometry, Images, OpenMode, Zeroes};
use benthic_core::{Durability, Stopwatch, SystemClock};
use benthic_rados::{Options, RadosStore};
use benthic_rbd::RbdImages;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const POOL: &str = "p";
const IMAGE: &str = "p/i";
const TIB: u64 = 1 << 40;
/// Objects that have data when the times are measured: a tenth of those of 1 TiB.
const WRITTEN_OBJECTS: u64 = TIB / (4 << 20) / 10;

struct Workload {
    rw: &'static str,
    /// As fio and `benthic image bench` write it.
    block: [&'static str; 2],
    depth: &'static str,
}

const WORKLOADS: [Workload; 4] = [
    // The first one fills the image.
    Workload { rw: "write", block: ["1m", "1MiB"], depth: "4" },
    Workload { rw: "read", block: ["1m", "1MiB"], depth: "4" },
    Workload { rw: "randread", block: ["4k", "4KiB"], depth: "16" },
    Workload { rw: "randwrite", block: ["4k", "4KiB"], depth: "16" },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    FioRbd,
    ImageBench,
    Nbd,
    QemuNbd,
}

const SIDES: [Side; 4] = [Side::FioRbd, Side::ImageBench, Side::Nbd, Side::QemuNbd];

/// An NBD server on the image. Dropping it ends it, and waits: a server that is killed keeps the
/// image's watch for 30 seconds.
struct Server {
    process: Child,
    uri: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}

pub fn run(setting: &Setting) -> Outcome<Vec<(&'static str, Section)>> {
    let cluster = Cluster::up(&setting.benthic, "block", &[])?;
    run_command(&mut cluster.benthic(["pool", "create", POOL]))?;
    run_command(&mut cluster.benthic(["image", "create", IMAGE, "--size", "1GiB"]))?;
    let note = "One OSD on this machine, an image of 1 GiB that the first workload fills, 5 s for each workload. All \
        sides use librbd on the same image.";
    let section = |title| Section { title, note: note.to_owned(), rows: Vec::new() };
    let mut bench = section("image bench against fio's RBD engine");
    let mut nbd = section("NBD against fio's RBD engine");
    let mut qemu = section("NBD against qemu-nbd on the image");
    for round in 0..setting.rounds {
        for workload in &WORKLOADS {
            let mut measured = Vec::new();
            for number in 0..SIDES.len() {
                let side = SIDES[(number + round) % SIDES.len()];
                eprintln!("    round {}: {} {}", round + 1, workload.block[0], workload.rw);
                measured.push((side, measure(setting, &cluster, side, workload)?));
            }
            let of = |side: Side| {
                measured.iter().find(|(found, _)| *found == side).map_or(0.0, |(_, found)| found.iops)
            };
            let name = format!("{} {}, depth {}", workload.block[0], workload.rw, workload.depth);
            for (section, wanted, ours, reference) in [
                (&mut bench, 0.95, Side::ImageBench, Side::FioRbd),
                (&mut nbd, 0.75, Side::Nbd, Side::FioRbd),
                (&mut qemu, 1.5, Side::Nbd, Side::QemuNbd),
            ] {
                let aim = Aim::OfReference(wanted);
                section.push(name.clone(), "/s", aim, [of(ours)], [of(reference)]);
            }
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let times = runtime.block_on(times(setting, &cluster))?;
    Ok(vec![("ceph-bench", bench), ("ceph-nbd", nbd), ("ceph-qemu-nbd", qemu), ("ceph-times", times)])
}

fn measure(setting: &Setting, cluster: &Cluster, side: Side, workload: &Workload) -> Outcome<Measured> {
    let seconds = if setting.quick { "1" } else { "5" };
    if side == Side::ImageBench {
        let Workload { rw, block, depth } = workload;
        let found = cluster.json(&[
            "image",
            "bench",
            IMAGE,
            "--rw",
            rw,
            "--bs",
            block[1],
            "--depth",
            depth,
            "--seconds",
            seconds,
            "--yes",
            "i",
        ])?;
        let iops = found["operations_per_s"].as_f64().ok_or("the program printed no rate")?;
        return Ok(Measured { iops, p99_us: 0.0 });
    }
    let server = match side {
        Side::Nbd | Side::QemuNbd => Some(start(cluster, side)?),
        Side::FioRbd | Side::ImageBench => None,
    };
    let mut command = Command::new("fio");
    command.args(["--name=bench", "--size=1g", "--time_based", "--randseed=7", "--end_fsync=1"]);
    command.arg(format!("--runtime={seconds}")).arg(format!("--rw={}", workload.rw));
    command.arg(format!("--bs={}", workload.block[0])).arg(format!("--iodepth={}", workload.depth));
    match &server {
        Some(server) => command.arg("--ioengine=nbd").arg(format!("--uri={}", server.uri)),
        None => command
            .args(["--ioengine=rbd", "--clientname=admin", "--pool=p", "--rbdname=i"])
            .env("CEPH_CONF", cluster.conf()),
    };
    fio::measure(command.current_dir(cluster.dir()))
}

fn start(cluster: &Cluster, side: Side) -> Outcome<Server> {
    let socket = cluster.dir().join("nbd").display().to_string();
    if Path::new(&socket).exists() {
        std::fs::remove_file(&socket)?;
    }
    let mut command = match side {
        Side::QemuNbd => {
            let mut command = Command::new("qemu-nbd");
            command.args(["-f", "raw", "-t", "-x", IMAGE, "--cache=writeback", "-k", &socket]);
            command.arg(format!("rbd:{IMAGE}:conf={}", cluster.conf().display()));
            command
        }
        _ => cluster.benthic(["image", "serve", "--listen", &format!("unix:{socket}"), IMAGE]),
    };
    let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let server = Server { process, uri: format!("nbd+unix:///{IMAGE}?socket={socket}") };
    for _ in 0..600 {
        if Path::new(&socket).exists() {
            // The server listens before it has opened the image; then clients wait.
            return Ok(server);
        }
        pause(Duration::from_millis(50));
    }
    Err("the server does not listen".into())
}

/// Times of operations on an image of 2 TiB.
async fn times(setting: &Setting, cluster: &Cluster) -> Outcome<Section> {
    let note = "An image of 2 TiB; 5% of its objects have data, 4 KiB each. librados is connected.";
    let mut section = Section { title: "Operations on 2 TiB", note: note.to_owned(), rows: Vec::new() };
    let store = RadosStore::connect(Some(&cluster.conf()), None, Options::default())?;
    let images = RbdImages::open(store, POOL).await?;
    for round in 0..setting.rounds.min(3) {
        eprintln!("    round {}: operations on 2 TiB", round + 1);
        images.create("large", CreateOptions::new(2 * TIB, Geometry::default())).await?;
        let image = images.open("large", None, OpenMode::Write).await?;
        let began = Stopwatch::start(&SystemClock);
        image.write_zeroes(0, 2 * TIB, Zeroes::Punch, Durability::Durable).await?;
        section.push("discarding the empty image", "ms", Aim::AtMost(1_000.0), [ms(began)], []);
        snapshots::touch(&*image, if setting.quick { 1_000 } else { WRITTEN_OBJECTS }).await?;
        image.flush().await?;
        let began = Stopwatch::start(&SystemClock);
        image.create_snapshot("s").await?;
        section.push("taking a snapshot", "ms", Aim::AtMost(50.0), [ms(began)], []);
        let began = Stopwatch::start(&SystemClock);
        images.clone_snapshot("large", "s", "clone").await?;
        section.push("creating a clone", "ms", Aim::AtMost(50.0), [ms(began)], []);
        image.close().await?;
        let began = Stopwatch::start(&SystemClock);
        let image = images.open("large", None, OpenMode::Write).await?;
        section.push("opening for writing", "ms", Aim::AtMost(20.0), [ms(began)], []);
        let began = Stopwatch::start(&SystemClock);
        images.open("large", None, OpenMode::ReadOnly).await?.close().await?;
        section.push("opening read-only, and closing", "ms", Aim::AtMost(20.0), [ms(began)], []);
        images.remove("clone").await?;
        image.remove_snapshot("s").await?;
        let began = Stopwatch::start(&SystemClock);
        image.write_zeroes(0, 2 * TIB, Zeroes::Punch, Durability::Durable).await?;
        section.push("discarding all of it", "ms", Aim::None, [ms(began)], []);
        image.close().await?;
        images.remove("large").await?;
    }
    Ok(section)
}

fn ms(since: Stopwatch<'_>) -> f64 {
    since.elapsed().as_secs_f64() * 1e3
}
