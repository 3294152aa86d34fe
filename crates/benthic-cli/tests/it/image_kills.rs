//! fio's verification across kills: the flushed data of one job must be there after the server was
//! killed under the load of another job.

use crate::nbd::Server;
use crate::support::Home;
use benthic_testkit::wait;
use std::process::{Command, Stdio};
use std::time::Duration;

const REGION_MIB: u64 = 16;

/// A job that writes blocks with a pattern to one half of the image, in an order that follows from
/// the seed, or that verifies them.
fn job(server: &Server, home: &Home, half: u64, seed: u64, verify_only: bool) -> Command {
    let mut command = Command::new("fio");
    command.args(["--name=kills", "--ioengine=nbd", "--rw=randwrite", "--bsrange=4k-128k", "--iodepth=16"]);
    command.args(["--verify=pattern", "--verify_fatal=1"]);
    // Each block begins with the round and its offset, so that older bytes are found too.
    command.arg(format!("--verify_pattern=0x{:02x}%o", seed + 1)).arg(format!("--randseed={seed}"));
    command.arg(format!("--uri={}", server.uri("p/i")));
    command.arg(format!("--size={REGION_MIB}m")).arg(format!("--offset={}m", half * REGION_MIB));
    command.args(if verify_only { &["--verify_only=1"][..] } else { &["--do_verify=0", "--end_fsync=1"] });
    command.current_dir(home.path(".")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn fio_verifies_flushed_jobs_after_kills() {
    let rounds: u64 = if benthic_testkit::seed::is_long() { 50 } else { 2 };
    let home = Home::with_pool();
    home.ok(&["image", "create", "p/i", "--size", &format!("{}MiB", 2 * REGION_MIB)]);
    for round in 0..rounds {
        let server = Server::start(&home, &["p/i"]);
        assert!(job(&server, &home, 0, round, false).status().unwrap().success());
        if round % 2 == 0 {
            home.ok(&["image", "snap", "create", &format!("p/i@s{round}")]);
        }
        let mut load = job(&server, &home, 1, round, false).arg("--loops=100").spawn().unwrap();
        wait::pause(Duration::from_millis(50 + round * 97 % 400));
        // Kills it.
        drop(server);
        load.wait().unwrap();
        let server = Server::start(&home, &["p/i"]);
        assert!(job(&server, &home, 0, round, true).status().unwrap().success(), "round {round}");
        server.stop();
    }
    // The verification finds wrong bytes.
    let server = Server::start(&home, &["p/i"]);
    assert!(!job(&server, &home, 0, rounds, true).status().unwrap().success());
    server.stop();
}
