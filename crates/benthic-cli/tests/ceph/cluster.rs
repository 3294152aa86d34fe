//! The program starts, damages, stops and removes a real Ceph cluster.

use crate::support::{CLUSTER_DIR, ClusterCleanup, Home, daemon, failed, keys, printed, status, tree};
use benthic_core::{Stopwatch, SystemClock};
use benthic_testkit::wait;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Runs one of Ceph's programs as a client, which knows only the configuration that `cluster env`
/// printed.
fn client(env: &Value, program: &str, args: &[&str]) -> String {
    let conf = env["CEPH_CONF"].as_str().unwrap();
    printed(&Command::new(program).args(args).env("CEPH_CONF", conf).output().unwrap(), args)
}

/// The session of a process. The terminal's signals go to its session.
fn session_id(pid: &str) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // After the name: state, parent, group, session.
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(3).unwrap().to_owned()
}

#[test]
fn a_cluster_lives_through_crashes_and_stops() {
    let home = Home::bare();
    let _removed = ClusterCleanup(&home, &[CLUSTER_DIR, "second"]);
    let mut processes = BTreeSet::new();
    let up = std::thread::scope(|scope| {
        let up = scope.spawn(|| home.json(&["cluster", "up", "--osds", "2"]).remove(0));
        while !up.is_finished() {
            processes.append(&mut command_lines());
        }
        up.join().unwrap()
    });
    assert_eq!((&up["up"], &up["health"]), (&"created".into(), &"HEALTH_OK".into()), "{up}");
    let _ = writeln!(std::io::stderr(), "cluster up --osds 2: {} s", up["seconds"]);

    let first = status(&home);
    assert_eq!(
        keys(&first),
        [
            "checks",
            "daemons",
            "dir",
            "fsid",
            "health",
            "mbit_per_s",
            "pools",
            "rtt_ms",
            "sites",
            "total_bytes",
            "used_bytes"
        ]
    );
    let names: Vec<_> = first["daemons"].as_array().unwrap().iter().map(|daemon| &daemon["name"]).collect();
    assert_eq!(names, ["mon.a", "mgr.a", "osd.0", "osd.1"]);
    assert_eq!((first["health"].as_str(), first["checks"].as_array().unwrap().len()), (Some("HEALTH_OK"), 0));
    for daemon in first["daemons"].as_array().unwrap() {
        let pid = daemon["pid"].as_u64().unwrap();
        assert!(daemon["uptime_s"].as_u64().unwrap() < 600 && daemon["hangs"].is_null(), "{daemon}");
        assert_ne!(session_id(&pid.to_string()), session_id("self"), "{daemon} is detached");
    }

    let again = home.json(&["cluster", "up"]).remove(0);
    assert_eq!(again["up"], "already");
    assert!(home.fails(6, &["cluster", "up", "--osds", "3"]).contains("has 2 OSDs"));

    // A client needs nothing but the output of `env`.
    let env = home.json(&["cluster", "env"]).remove(0);
    let shell = home.ok(&["cluster", "env"]);
    let conf = home.path("benthic-cluster/ceph.conf").canonicalize().unwrap();
    assert_eq!(env["CEPH_CONF"], conf.to_str().unwrap());
    assert_eq!(env["BENTHIC_STORE"], format!("ceph:?conf={}", conf.display()));
    assert_eq!(
        shell,
        format!("export CEPH_CONF='{0}'\nexport BENTHIC_STORE='ceph:?conf={0}'\n", conf.display())
    );
    client(&env, "ceph", &["osd", "pool", "create", "p"]);
    client(&env, "ceph", &["osd", "pool", "application", "enable", "p", "test"]);
    let file = home.file("hello", "hello, cluster");
    client(&env, "rados", &["-p", "p", "put", "o", file.to_str().unwrap()]);
    let read = || client(&env, "rados", &["-p", "p", "get", "o", "-"]);
    assert_eq!(read(), "hello, cluster");
    // An answer from one of Ceph's own classes proves that the class directory is right.
    assert!(client(&env, "rados", &["-p", "p", "lock", "list", "o"]).contains("objname"));

    classes_are_installed(&home, &up, env["BENTHIC_STORE"].as_str().unwrap());
    // `ceph:` alone finds the cluster in the current directory.
    assert!(home.ok(&["--store", "ceph:", "pool", "ls"]).lines().any(|pool| pool == "p"));

    keys_stay_secret(&home, &shell, &processes);

    // Starts a second cluster beside the first. Neither affects the other.
    home.ok(&["cluster", "up", "--osds", "1", "--dir", "second"]);
    let beside = home.json(&["cluster", "status", "--dir", "second"]).remove(0);
    assert_eq!(beside["health"], "HEALTH_OK", "{beside}");
    home.ok(&["cluster", "down", "--dir", "second"]);
    home.file("second/notes.txt", "mine");
    let remove = ["cluster", "down", "--remove", "--dir", "second"];
    let refused = home.fails(2, &remove);
    assert!(
        refused.contains("unknown contents (the monitor does not run); add --yes second to confirm"),
        "{refused}"
    );
    assert!(home.ok(&[&remove[..], &["--yes", "second"]].concat()).contains("other files stay"));
    assert_eq!(tree(&home.path("second")), ["notes.txt"]);
    let pid_before = daemon(&status(&home), "osd.1")["pid"].clone();
    assert_eq!(pid_before, daemon(&first, "osd.1")["pid"], "the first cluster was left alone");

    // The environment may name another cluster.
    let mut elsewhere = home.command(&["--json", "cluster", "status"]);
    let elsewhere = elsewhere.env("CEPH_ARGS", "--mon-host 192.0.2.1 --keyring /dev/null").output().unwrap();
    let here: Value = serde_json::from_str(&printed(&elsewhere, &["status"])).unwrap();
    assert!(here["health"].as_str().unwrap().starts_with("HEALTH_"), "{here}");

    // An OSD crash is detected and repaired.
    home.ok(&["cluster", "kill", "osd.1"]);
    assert!(home.fails(3, &["cluster", "kill", "osd.1"]).contains("does not run"));
    wait::until("the monitor to notice", || {
        let now = status(&home);
        assert_eq!(
            (daemon(&now, "osd.1")["pid"].as_u64(), daemon(&now, "osd.0")["pid"].is_u64()),
            (None, true)
        );
        now["health"] == "HEALTH_WARN" && now["checks"].to_string().contains("OSD_DOWN")
    });
    assert!(home.ok(&["cluster", "status"]).contains("osd.1    down\n"));
    assert_eq!(read(), "hello, cluster");
    assert_eq!(home.json(&["cluster", "start", "osd.1"])[0]["started"], true);
    assert_eq!(home.json(&["cluster", "start", "osd.1"])[0]["started"], false);
    wait::until("HEALTH_OK", || status(&home)["health"] == "HEALTH_OK");
    assert_ne!(daemon(&status(&home), "osd.1")["pid"], pid_before);

    // A hung monitor does not hang the program.
    let monitor = daemon(&status(&home), "mon.a")["pid"].to_string();
    let signal =
        |name: &str| assert!(Command::new("kill").args([name, &monitor]).status().unwrap().success());
    signal("-STOP");
    let began = Stopwatch::start(&SystemClock);
    let hung = status(&home);
    signal("-CONT");
    assert_eq!(
        (&hung["health"], hung["daemons"].as_array().unwrap().len()),
        (&"UNKNOWN".into(), 4),
        "{hung}"
    );
    assert!(began.elapsed() < Duration::from_secs(30));

    // A cluster that was stopped and restarted has all its data.
    assert!(home.ok(&["cluster", "down"]).contains("its data stay"));
    let down = status(&home);
    assert_eq!(down["health"], "DOWN");
    assert!(down["daemons"].as_array().unwrap().iter().all(|daemon| daemon["pid"].is_null()), "{down}");
    assert!(home.ok(&["cluster", "down"]).contains("down already"));
    let marker: Value = serde_json::from_slice(&home.read("benthic-cluster/benthic-cluster.json")).unwrap();
    let stranger =
        TcpListener::bind(("127.0.0.1", u16::try_from(marker["mon_port"].as_u64().unwrap()).unwrap()));
    assert!(home.fails(10, &["cluster", "up"]).contains("the monitor's port"));
    drop(stranger.unwrap());
    let up = home.json(&["cluster", "up"]).remove(0);
    assert_eq!((&up["up"], &up["health"]), (&"resumed".into(), &"HEALTH_OK".into()), "{up}");
    assert_eq!(read(), "hello, cluster");
    wait::until("the pool's statistics", || {
        let pools = status(&home)["pools"].clone();
        pools.as_array().unwrap().iter().any(|pool| pool["name"] == "p" && pool["objects"] == 1)
    });

    // The program reports a daemon that cannot start, with its log.
    home.ok(&["cluster", "kill", "osd.0"]);
    fs::rename(home.path("benthic-cluster/osd.0"), home.path("benthic-cluster/osd.away")).unwrap();
    let error = home.fails(9, &["cluster", "start", "osd.0"]);
    let log = fs::read_to_string(home.path("benthic-cluster/log/osd.0.log")).unwrap();
    let last: String = log.lines().last().unwrap().chars().take(200).collect();
    assert!(error.contains("last lines of osd.0:") && error.contains(&last), "{last}\n{error}");
    fs::rename(home.path("benthic-cluster/osd.away"), home.path("benthic-cluster/osd.0")).unwrap();
    home.ok(&["cluster", "start", "osd.0"]);

    // A cluster with pools is removed only after a confirmation. Ceph counts the bytes of every
    // copy while an OSD recovers, so their number is not known here.
    let remove = ["cluster", "down", "--remove"];
    for (options, expected) in [
        (&[][..], "1 pool (p), about 1 object with about "),
        (&["--json"], "add --yes benthic-cluster to confirm"),
        (&["--yes", "p"], r#"the name of the cluster is "benthic-cluster", not "p""#),
    ] {
        let refused = home.fails(2, &[&remove[..], options].concat());
        assert!(refused.contains(expected), "{options:?}: {refused}");
    }
    assert!(!home.on_terminal(&remove, "yes\n").status.success());
    assert_eq!(read(), "hello, cluster");
    let removed = home.on_terminal(&remove, "benthic-cluster\n");
    assert!(printed(&removed, &remove).contains("the cluster is removed"));
    assert!(!home.path("benthic-cluster").exists());
    assert!(home.fails(3, &["cluster", "status"]).contains("benthic cluster up"));
}

/// Checks that the OSDs have the classes of this build, and that the program warns if an OSD runs
/// an older build than the installed one.
fn classes_are_installed(home: &Home, up: &Value, store: &str) {
    let library = up["classes"][0].as_str().expect("`cargo build --release -p benthic-cls-library` makes it");
    let installed = home.path("benthic-cluster/classes/libcls_benthic_1.so");
    assert_eq!(fs::read(&installed).unwrap(), fs::read(library).unwrap());
    let digest = home.ok(&["--store", store, "exec", "p/o", "digest", "md5"]);
    assert!(digest.contains("7c7f0b212cbac5b26ced13ff93a1e6ac"), "{digest}");
    assert_eq!(home.json(&["cluster", "up"])[0]["older_classes"], serde_json::json!([]));
    let newer = home.file("libcls_benthic_1.so", [fs::read(library).unwrap(), vec![0]].concat());
    let up = home.run(&["cluster", "up", "--classes", newer.to_str().unwrap()]);
    let warning = String::from_utf8_lossy(&up.stderr);
    assert!(warning.contains("osd.0, osd.1 run an older build"), "{warning}");
    assert_eq!(fs::read(&installed).unwrap(), fs::read(newer).unwrap());
    assert!(home.fails(6, &["cluster", "up", "--classes", "libcls_lock.so"]).contains("Ceph's own"));
}

/// The command lines of all processes, which every user of the machine can see.
fn command_lines() -> BTreeSet<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
}

/// Checks that no other user can read a key: not in files, process lists or logs, nor in the
/// program's output.
fn keys_stay_secret(home: &Home, env: &str, processes: &BTreeSet<String>) {
    let dir = home.path("benthic-cluster");
    let keyring = fs::read_to_string(dir.join("keyring")).unwrap();
    let secrets: Vec<&str> = keyring.lines().filter_map(|line| line.trim().strip_prefix("key = ")).collect();
    assert_eq!(secrets.len(), 5, "mon, admin, mgr and two OSDs");
    assert_eq!(fs::metadata(dir.join("keyring")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    let mut said = vec![
        env.to_owned(),
        home.ok(&["cluster", "status"]),
        home.ok(&["cluster", "logs", "--lines", "100000"]),
    ];
    let logs: Vec<_> = fs::read_dir(dir.join("log")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(logs.len() >= 4, "{logs:?}");
    let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    said.extend(logs.iter().map(|path| text(path)));
    assert!(processes.iter().any(|line| line.contains("ceph-osd")), "the processes were seen");
    said.extend(processes.iter().cloned());
    for text in said {
        assert!(secrets.iter().all(|secret| !text.contains(secret)), "a key was printed");
    }
    assert!(home.ok(&["cluster", "logs", "mon.a", "--lines", "3"]).lines().count() == 4);
}

/// Starts `up` and returns once it has started the manager.
fn up_on_its_way(home: &Home) -> Child {
    let mut up = home.command(&["cluster", "up", "--osds", "1"]);
    let up = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let log = home.path("benthic-cluster/log/mgr.a.log");
    wait::until("the manager's log", || log.exists());
    up
}

#[test]
fn an_interrupted_up_can_be_repeated() {
    let home = Home::bare();
    let _removed = ClusterCleanup(&home, &[CLUSTER_DIR]);
    let mut up = up_on_its_way(&home);
    assert!(home.fails(10, &["cluster", "down"]).contains("another command"));
    up.kill().unwrap();
    up.wait().unwrap();
    let half = status(&home);
    assert!(daemon(&half, "mon.a")["pid"].is_u64(), "{half}");
    assert!(half["checks"].to_string().contains("never complete"), "{half}");
    let repeated = home.json(&["cluster", "up"]).remove(0);
    assert_eq!((&repeated["up"], &repeated["health"]), (&"created".into(), &"HEALTH_OK".into()));
    assert_eq!(status(&home)["daemons"].as_array().unwrap().len(), 3, "one OSD, as was asked for first");
    // A cluster without pools is removed without a question.
    home.ok(&["cluster", "down", "--remove"]);
}

#[test]
fn a_cluster_with_data_is_never_recreated() {
    let home = Home::bare();
    let _removed = ClusterCleanup(&home, &[CLUSTER_DIR]);
    let mut up = up_on_its_way(&home);
    // A cluster warning makes `up` wait for health. Meanwhile a client uses the cluster.
    let env = home.json(&["cluster", "env"]).remove(0);
    client(&env, "ceph", &["--connect-timeout", "30", "osd", "set", "noout"]);
    let marker =
        || -> Value { serde_json::from_slice(&home.read("benthic-cluster/benthic-cluster.json")).unwrap() };
    wait::until("the cluster to serve", || marker()["complete"] == true);
    assert!(up.try_wait().unwrap().is_none(), "it still waits");
    home.ok(&["--store", "ceph:", "pool", "create", "kept"]);
    up.kill().unwrap();
    up.wait().unwrap();
    assert_eq!(home.json(&["cluster", "up"])[0]["up"], "already");
    assert!(home.ok(&["--store", "ceph:", "pool", "ls"]).lines().any(|pool| pool == "kept"));
    assert!(home.fails(6, &["cluster", "kill", "wan"]).contains("has no sites"));
}

#[test]
fn other_directories_are_left_alone() {
    let home = Home::bare();
    home.file("photos/cat.jpg", "meow");
    let dir = &["--dir", "photos"][..];
    for verb in
        [&["status"][..], &["down", "--remove"], &["env"], &["logs"], &["kill", "osd.0"], &["start", "mon.a"]]
    {
        let args = [&["cluster"], verb, dir].concat();
        assert!(home.fails(3, &args).contains("no cluster here"), "{args:?}");
    }
    assert!(home.fails(2, &["cluster", "kill", "mds.a"]).contains("no such daemon"));
    assert!(home.fails(2, &["cluster", "up", "--osds", "0"]).contains("--osds"));
    assert!(home.fails(2, &["cluster", "up", "--osds", "33"]).contains("--osds"));
    assert!(home.fails(6, &["cluster", "up", "--dir", "photos"]).contains("something else"));
    assert!(home.fails(6, &["cluster", "up", "--dir", "a b"]).contains("letters"));
    let long = "x".repeat(120);
    assert!(home.fails(6, &["cluster", "up", "--dir", &long]).contains("too long"));
    assert!(!home.path("a b").exists() && !home.path(&long).exists(), "nothing was made");
    home.file("broken/benthic-cluster.json", "{");
    assert!(home.fails(12, &["cluster", "up", "--dir", "broken"]).contains("marker"));
    assert_eq!(home.read("photos/cat.jpg"), b"meow");
    assert_eq!(tree(&home.path("photos")), ["cat.jpg"]);
}

#[test]
fn missing_packages_are_named() {
    let home = Home::bare();
    let up = home.command(&["cluster", "up"]).env("PATH", home.path("empty")).output().unwrap();
    let error = failed(&up, 9);
    for name in ["make ceph", "apt-get install", "ceph-mon", "ceph-mgr", "ceph-osd", "ceph-common"] {
        assert!(error.contains(name), "{name}: {error}");
    }
    assert!(!home.path("benthic-cluster").exists(), "nothing was made");
}
