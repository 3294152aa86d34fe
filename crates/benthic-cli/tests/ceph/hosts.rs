//! `benthic class install --hosts` on a cluster of three hosts. Each host is a network namespace
//! with its own mounts, processes and host name, in which an OSD and a real ssh server run. All
//! OSDs have the same `osd_class_dir`, and each host has another directory there, so a file that
//! lands on the wrong host is missed.

use crate::support::{CLUSTER_DIR, ClusterCleanup, Home, Running, failed, json_lines, printed};
use benthic_testkit::wait;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

/// Where `make sshd-packages` unpacks the ssh server.
const SSHD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/sshd");
const BECOME_HOST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hosts/become-host");
/// The sites, and the hosts' names. The last name would be an option and two commands.
const SITES: [&str; 3] = ["msu", "um", "wsu"];
const HOSTILE: &str = "-oProxyCommand=touch x;$(touch y)";
const HOSTS: [&str; 3] = ["msu", "um", HOSTILE];
const NAME: &str = "benthic_1";
/// In the order of the plan, which is that of the names.
const ORDER: [&str; 3] = [HOSTILE, "msu", "um"];

/// A host, which ends with its OSD when dropped.
struct Host {
    process: Child,
    dir: PathBuf,
}

impl Host {
    fn start(home: &Home, sshd: &Path, index: usize) -> Host {
        let dir = home.dir().join("hosts").join(SITES[index]);
        for name in ["classes", "etc"] {
            fs::create_dir_all(dir.join(name)).unwrap();
        }
        let cluster = home.path(CLUSTER_DIR).canonicalize().unwrap();
        for class in fs::read_dir(cluster.join("classes")).unwrap().flatten() {
            if let Ok(system) = fs::read_link(class.path()) {
                std::os::unix::fs::symlink(system, dir.join("classes").join(class.file_name())).unwrap();
            }
        }
        let users = "sshd:*:4000:65534::/run/sshd:/usr/sbin/nologin\n\
            admin:*:4001:4001::/tmp:/bin/sh\nplain:*:4002:4002::/tmp:/bin/sh\n";
        let file = |name: &str, text: String| fs::write(dir.join(name), text).unwrap();
        file("etc/passwd", fs::read_to_string("/etc/passwd").unwrap() + users);
        file("etc/sudoers", "admin ALL=(ALL) NOPASSWD: ALL\n".to_owned());
        fs::set_permissions(dir.join("etc/sudoers"), fs::Permissions::from_mode(0o440)).unwrap();
        key(&dir.join("hostkey"));
        let authorized = home.path("key.pub");
        file(
            "sshd_config",
            format!(
                "HostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n",
                dir.join("hostkey").display(),
                authorized.display()
            ),
        );
        let osd = index.to_string();
        let words =
            [HOSTS[index], dir.to_str().unwrap(), cluster.to_str().unwrap(), &osd, sshd.to_str().unwrap()];
        let at = [
            "cluster",
            "at",
            SITES[index],
            "--",
            "unshare",
            "--mount",
            "--uts",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            BECOME_HOST,
        ];
        let log = fs::File::create(dir.join("log")).unwrap();
        let process =
            home.command(&[&at[..], &words].concat()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        Host { process, dir }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }

    /// The names in its directory of classes, without Ceph's own.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.dir.join("classes")).unwrap().flatten();
        let ours = entries.filter(|entry| !entry.file_type().unwrap().is_symlink());
        let mut names: Vec<String> = ours.map(|entry| entry.file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn library(&self) -> Option<Vec<u8>> {
        fs::read(self.dir.join("classes").join(format!("libcls_{NAME}.so"))).ok()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // When `unshare` ends, the kernel kills the host's first process, and with it the others.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn key(path: &Path) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).output();
    printed(&made.unwrap(), &["ssh-keygen"]);
}

/// The cluster, its hosts, and the way to them.
struct Hosts<'a> {
    home: &'a Home,
    hosts: Vec<Host>,
    store: String,
    ssh_config: String,
}

impl Hosts<'_> {
    fn start(home: &Home) -> Hosts<'_> {
        let sshd = Path::new(SSHD)
            .canonicalize()
            .unwrap_or_else(|error| panic!("{SSHD}: {error}; run `make sshd-packages`"));
        home.ok(&["cluster", "up", "--sites", &SITES.join(","), "--rtt-ms", "0", "--osds", "3"]);
        key(&home.path("key"));
        // The ssh server reads the public key as the user.
        fs::set_permissions(home.dir(), fs::Permissions::from_mode(0o711)).unwrap();
        let conf = home.path(CLUSTER_DIR).join("ceph.conf").display().to_string();
        let dump = ceph(&conf, &["osd", "dump"]);
        for osd in ["osd.0", "osd.1", "osd.2"] {
            home.ok(&["cluster", "kill", osd]);
        }
        let hosts: Vec<Host> = (0..3).map(|index| Host::start(home, &sshd, index)).collect();
        let (mut config, mut known) = (String::new(), String::new());
        for (index, host) in hosts.iter().enumerate() {
            let address = dump["osds"][index]["public_addr"].as_str().unwrap();
            let address = address.split(':').next().unwrap();
            config += &format!("Host {}\n  HostName {address}\n", SITES[index]);
            known += &format!("{address} {}", fs::read_to_string(host.dir.join("hostkey.pub")).unwrap());
        }
        home.file("known", known);
        let file = |name| home.path(name).display().to_string();
        config += &format!(
            "Host *\n  User root\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  \
            GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n",
            file("key"),
            file("known")
        );
        home.file("ssh.conf", config);
        let store = format!("ceph:?conf={conf}");
        // Each OSD leads a placement group of a pool with this many.
        ceph(&conf, &["osd", "pool", "create", "p", "32"]);
        ceph(&conf, &["osd", "pool", "application", "enable", "p", "benthic"]);
        let started = Hosts { home, hosts, store, ssh_config: file("ssh.conf") };
        wait::until("the OSDs of the hosts", || started.reported_hosts() == HOSTS);
        wait::until("ssh", || started.ssh("um", "true").status.success());
        started
    }

    fn conf(&self) -> &str {
        self.store.strip_prefix("ceph:?conf=").unwrap()
    }

    /// The hosts that OSDs that are up report, by OSD.
    fn reported_hosts(&self) -> Vec<String> {
        let dump = ceph(self.conf(), &["osd", "dump"]);
        let is_up = |osd: &Value| dump["osds"][osd["id"].as_u64().unwrap() as usize]["up"] == 1;
        let metadata = ceph(self.conf(), &["osd", "metadata"]);
        let up = metadata.as_array().unwrap().iter().filter(|osd| is_up(osd));
        up.map(|osd| osd["hostname"].as_str().unwrap().to_owned()).collect()
    }

    /// Runs a command on a host, as an administrator.
    fn ssh(&self, host: &str, command: &str) -> Output {
        let args = ["-F", &self.ssh_config, "-o", "BatchMode=yes", host, command];
        Command::new("ssh").args(args).stdin(Stdio::null()).output().unwrap()
    }

    #[track_caller]
    fn on(&self, host: &str, command: &str) {
        printed(&self.ssh(host, command), &[host, command]);
    }

    /// Restarts the OSD of a host.
    fn restart_osd(&self, index: usize) {
        let before = self.up_from(index);
        self.on(
            SITES[index],
            &format!(
                "pkill -KILL -x ceph-osd; while pgrep -x ceph-osd >/dev/null; do sleep 0.1; done; \
                ceph-osd -c {} -i {index} >/dev/null 2>&1",
                self.conf()
            ),
        );
        wait::until("the restarted OSD", || self.up_from(index) > before);
    }

    fn up_from(&self, osd: usize) -> u64 {
        let dump = ceph(self.conf(), &["osd", "dump"]);
        if dump["osds"][osd]["up"] == 1 { dump["osds"][osd]["up_from"].as_u64().unwrap() } else { 0 }
    }

    fn args<'s>(&'s self, file: &'s str, more: &[&'s str]) -> Vec<&'s str> {
        let args = ["--store", &self.store, "class", "install", file, "--ssh-config", &self.ssh_config];
        let to_hostile = concat!("--ssh=-oProxyCommand=touch x;$(touch y)", "=wsu");
        [&args[..], &[to_hostile], more].concat()
    }

    /// Runs the program with `--json`.
    fn json(&self, args: &[&str]) -> Output {
        self.home.run(&[&["--json"], args].concat())
    }

    /// Installs a library on all hosts. Returns the plan and the outcomes.
    #[track_caller]
    fn install(&self, file: &str, more: &[&str]) -> (Value, Vec<Value>, Output) {
        let args = self.args(file, &[&["--hosts", "--yes", NAME], more].concat());
        let run = self.json(&args);
        let mut lines = json_lines(&run.stdout);
        assert!(!lines.is_empty(), "{run:?}");
        let plan = lines.remove(0)["plan"].clone();
        (plan, lines, run)
    }

    /// The kind and the message of each error of a command that must fail, and the last message of
    /// all.
    #[track_caller]
    fn errors(&self, file: &str, more: &[&str]) -> Vec<Value> {
        let run = self.json(&self.args(file, more));
        assert!(!run.status.success(), "{run:?}");
        errors_of(&run)
    }
}

fn errors_of(run: &Output) -> Vec<Value> {
    json_lines(&run.stderr).into_iter().filter_map(|line| line.get("error").cloned()).collect()
}

fn ceph(conf: &str, args: &[&str]) -> Value {
    let args = [&["--conf", conf, "--format", "json"], args].concat();
    let printed = printed(&Command::new("ceph").args(&args).output().unwrap(), &args);
    serde_json::from_str(&printed).unwrap_or_default()
}

/// A field of each line.
fn each<'a>(lines: &'a [Value], field: &str) -> Vec<&'a str> {
    lines.iter().map(|line| line[field].as_str().unwrap_or_default()).collect()
}

/// The states of the OSDs of each line.
fn states(lines: &[Value]) -> Vec<&str> {
    lines
        .iter()
        .flat_map(|line| line["osds"].as_array().unwrap())
        .map(|osd| osd["state"].as_str().unwrap())
        .collect()
}

#[test]
fn a_library_is_installed_on_all_hosts_and_undone() {
    let home = Home::bare();
    let _removed = ClusterCleanup(&home, &[CLUSTER_DIR]);
    let built = Path::new(env!("CARGO_BIN_EXE_benthic")).parent().unwrap().join(format!("libcls_{NAME}.so"));
    let first = fs::read(&built).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    let second = [&first[..], b"another build"].concat();
    let file = |dir: &str, content: &[u8]| {
        home.file(&format!("{dir}/libcls_{NAME}.so"), content).display().to_string()
    };
    let (a, b) = (file("a", &first), file("b", &second));
    let cluster = Hosts::start(&home);
    let libraries = || -> Vec<Option<Vec<u8>>> { cluster.hosts.iter().map(Host::library).collect() };
    let no_file = vec![None; 3];

    hosts_that_cannot_be_used_are_refused(&cluster, &a);
    assert_eq!(libraries(), no_file);
    assert!(!home.path("x").exists() && !home.path("y").exists(), "no host's name is a command");

    // A plan changes nothing, and neither does a missing confirmation.
    let plan = home.json(&cluster.args(&a, &["--hosts", "--print"])[..]).remove(0)["plan"].clone();
    let directories = plan["directories"].as_array().unwrap();
    assert_eq!(each(directories, "host"), ORDER);
    assert_eq!((each(directories, "action"), &plan["restart_osds"]), (vec!["install"; 3], &json!([])));
    assert_eq!(directories[1]["osds"], json!([0]));
    assert!(directories[1]["ceph"][0].as_str().unwrap().contains('.'), "{plan}");
    assert_eq!((&plan["settings"], &plan["library"]), (&json!([]), &json!(NAME)), "{plan}");
    assert_eq!(plan["unknown_releases"], json!([]));
    let unconfirmed = cluster.errors(&a, &["--hosts"]);
    assert!(unconfirmed[0]["message"].as_str().unwrap().ends_with("add --yes benthic_1 to confirm"));
    assert_eq!(cluster.errors(&a, &["--hosts", "--yes", "other_1"])[0]["kind"], "usage");
    assert_eq!(libraries(), no_file);

    // The library is new on all hosts, and every OSD loads it.
    let (_, done, run) = cluster.install(&a, &[]);
    assert!(run.status.success(), "{run:?}");
    assert_eq!((each(&done, "host"), each(&done, "outcome")), (ORDER.to_vec(), vec!["installed"; 3]));
    assert_eq!(states(&done), ["runs"; 3]);
    assert_eq!(libraries(), vec![Some(first.clone()); 3]);
    let (_, again, _) = cluster.install(&a, &[]);
    assert_eq!((each(&again, "outcome"), states(&again)), (vec!["unchanged"; 3], vec!["runs"; 3]));

    a_stopped_installation_continues(&cluster, &b, &first, &second);

    // The hosts run the old file until their OSDs restart.
    let (plan, older, run) = cluster.install(&b, &[]);
    assert_eq!(plan["restart_osds"], json!([0, 1, 2]), "{plan}");
    assert_eq!((each(&older, "outcome"), states(&older)), (vec!["unchanged"; 3], vec!["runs_older"; 3]));
    assert!(String::from_utf8_lossy(&run.stderr).contains("until they restart"), "{run:?}");
    cluster.restart_osd(1);
    let (_, restarted, _) = cluster.install(&b, &[]);
    assert_eq!(states(&restarted), ["runs_older", "runs_older", "runs"]);

    // One command undoes it, and repeats are harmless.
    let (plan, undone, run) = cluster.install("no/libcls_benthic_1.so", &["--undo"]);
    assert!(run.status.success(), "{run:?}");
    assert_eq!(each(plan["directories"].as_array().unwrap(), "action"), ["restore"; 3]);
    assert_eq!((each(&undone, "outcome"), libraries()), (vec!["restored"; 3], vec![Some(first.clone()); 3]));
    assert_eq!(states(&undone), ["runs", "runs", "runs_older"], "as the files are the old ones");
    let (_, undone, _) = cluster.install(&b, &["--undo"]);
    assert_eq!(each(&undone, "outcome"), ["unchanged"; 3]);
    for host in &cluster.hosts {
        assert_eq!(host.names(), [format!("libcls_{NAME}.so")], "{}", host.log());
    }

    osds_that_no_file_helps_are_refused(&cluster, &b);
}

/// A failure on the second host leaves a clear state, and the next run continues.
fn a_stopped_installation_continues(cluster: &Hosts<'_>, b: &str, first: &[u8], second: &[u8]) {
    let [msu, um, hostile] = [0, 1, 2].map(|index| &cluster.hosts[index]);
    // Another command holds the lock of the second host's directory.
    let locked = fs::File::open(msu.dir.join("classes")).unwrap();
    locked.lock().unwrap();
    let (plan, done, run) = cluster.install(b, &[]);
    assert_eq!(each(plan["directories"].as_array().unwrap(), "action"), ["install"; 3]);
    assert_eq!(run.status.code(), Some(10), "{run:?}");
    assert_eq!(each(&done, "outcome"), ["installed", "failed", "not_tried"]);
    let contents = [hostile, msu, um].map(|host| host.library().unwrap());
    assert_eq!(contents, [second, first, first]);
    drop(locked);

    // Ctrl-C while the library is on its way to the second host, over a slow link.
    let home = cluster.home;
    home.ok(&["cluster", "up", "--mbit-per-s", "4"]);
    let args = [&["--json"], &cluster.args(b, &["--hosts", "--yes", NAME])[..]].concat();
    let mut running = Running::start(home.command(&args));
    let arrives = || msu.names().iter().any(|name| name.ends_with(".part"));
    wait::until("the transfer", arrives);
    running.signal(Signal::INT);
    assert_eq!(running.ends_within(Duration::from_secs(5)).code(), Some(130));
    home.ok(&["cluster", "up", "--mbit-per-s", "0"]);
    wait::until("the host to notice", || !arrives());
    assert_eq!(msu.library().unwrap(), first);

    // The ssh connection breaks in the middle.
    home.ok(&["cluster", "up", "--mbit-per-s", "4"]);
    let mut running = Running::start(home.command(&args));
    wait::until("the transfer", arrives);
    let pid = running.pid().to_string();
    printed(&Command::new("pkill").args(["-KILL", "-x", "-P", &pid, "ssh"]).output().unwrap(), &["pkill"]);
    let status = running.ends_within(Duration::from_secs(60));
    home.ok(&["cluster", "up", "--mbit-per-s", "0"]);
    assert_eq!(status.code(), Some(14), "the outcome is not known");
    wait::until("the host to notice", || !arrives());
    assert_eq!(msu.library().unwrap(), first);

    let (plan, done, run) = cluster.install(b, &[]);
    assert!(run.status.success(), "{run:?}");
    assert_eq!(each(plan["directories"].as_array().unwrap(), "action"), ["keep", "install", "install"]);
    assert_eq!(each(&done, "outcome"), ["unchanged", "installed", "installed"]);
    let contents = [hostile, msu, um].map(|host| host.library().unwrap());
    assert_eq!(contents, [second; 3]);
    assert_eq!(msu.names().len(), 3, "no rest of the interrupted commands: {:?}", msu.names());
}

fn hosts_that_cannot_be_used_are_refused(cluster: &Hosts<'_>, a: &str) {
    let home = cluster.home;
    let errors = |more: &[&str]| cluster.errors(a, &[&["--yes", NAME], more].concat());
    let of_um = |more: &[&str]| {
        let errors = errors(&[&["--hosts=um"], more].concat());
        assert_eq!((errors.len(), &errors[0]["subject"]), (2, &json!("um")), "{errors:?}");
        errors[0].clone()
    };
    // A name that is no host name has no destination of its own.
    let bare = [
        "--store",
        &cluster.store,
        "class",
        "install",
        a,
        "--hosts",
        "--yes",
        NAME,
        "--ssh-config",
        &cluster.ssh_config,
    ];
    let run = cluster.json(&bare);
    let error = errors_of(&run).remove(0);
    assert_eq!((&error["kind"], &error["subject"]), (&json!("invalid_argument"), &json!(HOSTILE)), "{run:?}");
    assert!(
        failed(&home.run(&[&bare[..], &["--ssh", "um=-oProxyCommand=touch x"]].concat()), 2)
            .contains("destination")
    );
    assert_eq!(errors(&["--hosts=mars"])[0]["kind"], "not_found");

    let closed = of_um(&["--ssh", "um=ssh://root@127.0.0.1:1"]);
    assert_eq!(closed["kind"], "unavailable", "{closed}");
    let config = fs::read_to_string(&cluster.ssh_config).unwrap();
    let unknown = home.file("unknown.conf", config.replace("/known", "/unknown"));
    let run = cluster.json(&[
        "--store",
        &cluster.store,
        "class",
        "install",
        a,
        "--hosts=um",
        "--yes",
        NAME,
        "--ssh-config",
        unknown.to_str().unwrap(),
    ]);
    assert!(String::from_utf8_lossy(&run.stderr).contains("Host key verification failed"), "{run:?}");

    // This machine has no ssh.
    let print = [&["--json"], &cluster.args(a, &["--hosts=um", "--print"])[..]].concat();
    let without_ssh = home.command(&print).env("PATH", "/nonexistent").output().unwrap();
    let error = errors_of(&without_ssh).remove(0);
    assert_eq!((&error["kind"], &error["subject"]), (&json!("unavailable"), &json!("um")), "{error}");
    assert!(error["message"].as_str().unwrap().contains("openssh-client"), "{error}");

    // A user other than root needs sudo, without a password.
    let plain = of_um(&["--ssh", "um=plain@um"]);
    assert_eq!(plain["kind"], "permission_denied", "{plain}");
    assert!(plain["message"].as_str().unwrap().contains("sudo"), "{plain}");
    let plan = home.json(&cluster.args(a, &["--hosts=um", "--print", "--ssh", "um=admin@um"])[..]);
    assert_eq!(plan[0]["plan"]["directories"][0]["ssh"], "admin@um");

    // Directories that take no file.
    let dir = Path::new(cluster.conf()).parent().unwrap().join("classes").display().to_string();
    cluster.on("um", &format!("mount -o remount,bind,ro {dir}"));
    assert_eq!(of_um(&[])["kind"], "permission_denied");
    cluster.on("um", &format!("mount -o remount,bind,rw {dir}; mount -t tmpfs -o size=64k tmpfs {dir}"));
    let full = of_um(&[]);
    assert_eq!(full["kind"], "limit_exceeded", "{full}");
    cluster.on("um", &format!("umount {dir}"));
}

fn osds_that_no_file_helps_are_refused(cluster: &Hosts<'_>, b: &str) {
    // No OSD of the host is up. The other hosts can still be chosen.
    cluster.home.ok(&["cluster", "kill", "osd.1"]);
    wait::until("the OSD to be down", || cluster.up_from(1) == 0);
    let errors = cluster.errors(b, &["--hosts", "--yes", NAME]);
    assert_eq!((&errors[0]["kind"], &errors[0]["subject"]), (&json!("unavailable"), &json!("um")));
    let plan = cluster.home.json(&cluster.args(b, &["--hosts=msu", "--print"])[..]);
    assert_eq!(plan[0]["plan"]["directories"].as_array().unwrap().len(), 1);

    // An OSD in a container, as cephadm starts it.
    cluster
        .on("um", &format!("CONTAINER_IMAGE=ceph:v16 ceph-osd -c {} -i 1 >/dev/null 2>&1", cluster.conf()));
    wait::until("the OSD", || cluster.up_from(1) > 0);
    let error = cluster.errors(b, &["--hosts", "--yes", NAME]).remove(0);
    assert_eq!((&error["kind"], &error["context"]["osds"]), (&json!("unsupported"), &json!("osd.1")));
    assert!(error["message"].as_str().unwrap().contains("docs/guide/class-install.md"), "{error}");
}
