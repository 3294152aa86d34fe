//! The health report of a cluster with failures, with maintenance in progress, and with parts that
//! do not answer.

use crate::support::{
    CLUSTER_DIR, ClusterCleanup, Home, Server, daemon, failed, json_lines, printed, status,
};
use benthic_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Output};

/// Pool names that need escaping. The published probe stops at the first of these.
const HOSTILE_POOLS: [&str; 11] =
    ["test", "all", "a\"b", "it's", "$(id)", "..", "new\nline", "ü {}", "a,b", "{\"a\":1}", "-x"];
/// Findings that a loaded machine may cause at any time.
const OF_THE_MACHINE: [&str; 5] = [
    "BenthicOSDSlowDisk",
    "BenthicProbeSlow",
    "CephOSDTimeoutsClusterNetwork",
    "CephOSDTimeoutsPublicNetwork",
    "CephSlowOps",
];

const ALL_ANSWER: &str =
    "\nOSDs          3 up, 3 in, of 3, say the monitors (now); 3 of 3 answered Benthic (now)\n";

/// A cluster in a test's directory, and its clients.
struct TestCluster<'a> {
    home: &'a Home,
    conf: String,
    store: String,
}

impl TestCluster<'_> {
    fn run(&self, args: &[&str]) -> Output {
        self.home.run(&[&["--json", "--store", &self.store, "health"], args].concat())
    }

    fn look(&self, args: &[&str]) -> Value {
        json_lines(printed(&self.run(args), args).as_bytes()).remove(0)
    }

    fn ceph(&self, args: &[&str]) -> String {
        printed(&Command::new("ceph").args(["--conf", &self.conf]).args(args).output().unwrap(), args)
    }

    /// Waits until a report meets the condition.
    fn wait(&self, what: &str, args: &[&str], is_so: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        wait::until(what, || {
            last = self.look(args);
            is_so(&last)
        });
        last
    }

    fn wait_healthy(&self) -> Value {
        self.wait("a healthy verdict", &[], is_well)
    }

    fn add_client(&self, name: &str, caps: &[&str]) -> TestCluster<'_> {
        let key = self.ceph(&[&["auth", "get-or-create", name], caps].concat());
        let keyring = self.conf.replace("ceph.conf", "keyring");
        fs::write(&keyring, fs::read_to_string(&keyring).unwrap() + "\n" + &key).unwrap();
        TestCluster { store: format!("{}&id={name}", self.store), conf: self.conf.clone(), home: self.home }
    }
}

fn finding<'a>(report: &'a Value, name: &str) -> Option<&'a Value> {
    report["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == name)
}

fn is(report: &Value, name: &str, severity: &str) -> bool {
    finding(report, name).is_some_and(|finding| finding["severity"] == severity)
}

/// Findings above severity `info`, without those that a loaded machine causes.
fn alarms(report: &Value) -> Vec<&Value> {
    let findings = report["findings"].as_array().unwrap().iter();
    findings
        .filter(|finding| finding["severity"] != "info")
        .filter(|finding| !OF_THE_MACHINE.contains(&finding["name"].as_str().unwrap()))
        .collect()
}

#[track_caller]
fn no_alarm(report: &Value) {
    assert!(alarms(report).is_empty(), "{:?} in {report}", alarms(report));
}

/// Whether the report has no alarm and all placement groups have reported.
fn is_well(report: &Value) -> bool {
    alarms(report).is_empty() && report["availability_percent"] == 100.0
}

#[test]
fn health_reports_the_state_of_a_cluster() {
    let home = Home::bare();
    let _removed = ClusterCleanup(&home, &[CLUSTER_DIR]);
    home.ok(&["cluster", "up", "--osds", "3"]);
    let conf = home.path("benthic-cluster").canonicalize().unwrap().join("ceph.conf");
    let conf = conf.to_str().unwrap().to_owned();
    let cluster = TestCluster { home: &home, store: format!("ceph:?conf={conf}"), conf };

    healthy_with_hostile_names(&cluster);
    missing_caps_are_reported(&cluster);
    a_rule_that_repeats_an_osd(&cluster);
    a_pool_that_is_split(&cluster);
    work_under_noout(&cluster);
    osds_that_die(&cluster);
    all_osds_that_die_at_once(&cluster);
    watch_repeats_the_report(&cluster);
    the_exporter_serves_metrics(&cluster);
    a_lost_manager_is_reported(&cluster);
    no_monitor(&cluster);
}

fn healthy_with_hostile_names(cluster: &TestCluster<'_>) {
    for pool in HOSTILE_POOLS {
        cluster.ceph(&["osd", "pool", "create", "--", pool, "4"]);
    }
    cluster.wait_healthy();
    let report = cluster.wait("a healthy probe", &["--probe-pool", "test"], |report| {
        // On a loaded machine, OSDs may take long to report their classes.
        is_well(report) && report["numbers"]["libraries"][0]["name"] == "benthic_1"
    });
    assert_eq!((&report["ceph"].as_str().is_some(), &report["is_stale"]), (&true, &json!(false)), "{report}");
    assert_eq!(report["availability_percent"], 100.0);
    for source in ["monitors", "benthic"] {
        assert_eq!(report["sources"][source]["availability_percent"], 100.0, "{report}");
    }
    assert_eq!(report["numbers"]["osd_answers"]["answered"], json!([0, 1, 2]), "{report}");
    let numbers = &report["numbers"];
    let pools: Vec<&str> =
        numbers["pools"].as_array().unwrap().iter().map(|pool| pool["pool"].as_str().unwrap()).collect();
    // Ceph 20 refuses names that begin with a dot, and its program still succeeds.
    let created = cluster.ceph(&["osd", "pool", "ls"]);
    for pool in HOSTILE_POOLS.into_iter().filter(|pool| !pool.starts_with('.') || created.contains(pool)) {
        assert!(pools.contains(&pool), "{pool:?} is not among {pools:?}");
    }
    assert!(numbers["probe"]["write_ms"].is_number() && numbers["probe"]["read_ms"].is_number(), "{report}");
    assert!(is(&report, "BenthicMonAlone", "info") && is(&report, "BenthicMgrAlone", "info"), "{report}");
    let left = ["--store", &cluster.store, "ls", "test", "--all-namespaces", "--hidden"];
    assert_eq!(cluster.home.ok(&left), "", "the probe leaves nothing");
    wait::until("a healthy page", || {
        let page = cluster.home.ok(&["--store", &cluster.store, "health"]);
        page.starts_with("verdict       healthy: ") && page.contains(ALL_ANSWER)
    });
    let error = cluster.home.fails(3, &["--store", &cluster.store, "health", "--probe-pool", "tset"]);
    assert!(error.contains("did you mean \"test\"?"), "{error}");
    let notes = cluster.home.file("notes", "milk\n");
    let error = failed(&cluster.run(&["--history", notes.to_str().unwrap()]), 6);
    assert!(error.contains("no history") && fs::read(notes).unwrap() == b"milk\n", "{error}");
    let history = cluster.home.path("history");
    for _ in 0..2 {
        cluster.look(&["--history", history.to_str().unwrap()]);
    }
    assert_eq!(json_lines(&fs::read(history).unwrap()).len(), 1, "one reading an hour");
}

/// OSDs of Ceph 18 and later accept no connection of a client without osd caps, and librados does
/// not report it. Older ones answer such a client with errors.
fn missing_caps_are_reported(cluster: &TestCluster<'_>) {
    let are_silent = !cluster.ceph(&["--version"]).starts_with("ceph version 16.");
    let verdict = if are_silent { "down" } else { "degraded" };
    let blind = cluster.add_client("client.blind", &["mon", "allow r"]);
    let report = blind.look(&[]);
    assert_eq!((&report["verdict"], &report["numbers"]["osds"][2]["up"]), (&json!(verdict), &json!(true)));
    assert!(
        is(&report, "BenthicNotSeen", "warning") && report["missing"].to_string().contains("mgr caps"),
        "{report}"
    );
    let probing = blind.look(&["--probe-pool", "test"]);
    assert!(is(&probing, "BenthicProbeRefused", "warning"), "{probing}");
    let watching = cluster.add_client("client.watching", &["mon", "allow r", "mgr", "allow r"]);
    let report = watching.look(&[]);
    assert!(report["missing"].to_string().to_lowercase().contains("osd caps"), "{report}");
    if are_silent {
        assert!(is(&report, "BenthicOSDNoAnswer", "error") && report["verdict"] == "down", "{report}");
    } else {
        no_alarm(&report);
        assert!(is(&report, "BenthicNotSeen", "info"), "{report}");
        assert_eq!(report["availability_percent"], 100.0, "{report}");
    }
    let caps = ["mon", "allow r", "mgr", "allow r", "osd", "allow rx"];
    let documented = cluster.add_client("client.documented", &caps);
    let report = documented.wait("a healthy verdict with the documented caps", &[], is_well);
    assert_eq!(report["missing"], json!([]), "{report}");
    let nobody = cluster.add_client("client.nobody", &["mon", "allow service osd r"]);
    let error = failed(&nobody.run(&[]), 8);
    assert!(error.contains("mon 'allow r' mgr 'allow r'"), "{error}");
}

fn a_rule_that_repeats_an_osd(cluster: &TestCluster<'_>) {
    let (map, text) = (cluster.home.path("crush"), cluster.home.path("crush.txt"));
    let (map, text) = (map.to_str().unwrap(), text.to_str().unwrap());
    cluster.ceph(&["osd", "getcrushmap", "-o", map]);
    let crushtool = |args: &[&str]| printed(&Command::new("crushtool").args(args).output().unwrap(), args);
    crushtool(&["-d", map, "-o", text]);
    let steps = "step take default\nstep choose firstn 1 type osd\nstep emit\nstep take default\n\
        step choose firstn -1 type osd\nstep emit";
    let rule = format!("rule naive {{\nid 9\ntype replicated\nmin_size 1\nmax_size 10\n{steps}\n}}\n");
    fs::write(text, fs::read_to_string(text).unwrap() + &rule).unwrap();
    crushtool(&["-c", text, "-o", map]);
    cluster.ceph(&["osd", "setcrushmap", "-i", map]);
    // No pool uses the rule yet.
    let report = cluster.look(&[]);
    assert!(is(&report, "BenthicRuleRepeatsOSD", "info"), "{report}");
    cluster.ceph(&["osd", "pool", "create", "fresh", "8", "8", "replicated", "naive"]);
    cluster.ceph(&["osd", "pool", "application", "enable", "fresh", "benthic"]);
    let report = cluster.wait("undersized placement groups", &[], |report| {
        let is_reported =
            is(report, "BenthicRuleRepeatsOSD", "error") && is(report, "BenthicPGsDegraded", "warning");
        // New placement groups are inactive for a moment, and Ceph reports that.
        let settled =
            report["availability_percent"] == 100.0 && !report["checks"].to_string().contains("PG_");
        is_reported && settled && cluster.run(&["--exit-status"]).status.code() == Some(21)
    });
    assert_eq!(report["verdict"], "at_risk", "{report}");
    cluster.ceph(&["osd", "pool", "delete", "fresh", "fresh", "--yes-i-really-really-mean-it"]);
    cluster.ceph(&["osd", "crush", "rule", "rm", "naive"]);
    wait::until("a healthy verdict", || cluster.run(&["--exit-status"]).status.code() == Some(0));
}

/// A planned change never causes an alarm.
fn a_pool_that_is_split(cluster: &TestCluster<'_>) {
    let bench = ["bench", "write", "all", "--size", "64KiB", "--count", "200", "--keep"];
    cluster.home.ok(&[&["--store", &cluster.store], &bench[..]].concat());
    cluster.ceph(&["osd", "pool", "set", "all", "pg_num", "16"]);
    cluster.wait("the pool to be split", &[], |report| {
        no_alarm(report);
        let pool =
            report["numbers"]["pools"].as_array().unwrap().iter().find(|pool| pool["pool"] == "all").unwrap();
        pool["pgs"] == 16 && pool["pgs_taking_io"] == 16 && finding(report, "BenthicPgNumChanging").is_none()
    });
    cluster.ceph(&["osd", "set", "norebalance"]);
    let report = cluster.look(&[]);
    no_alarm(&report);
    assert!(is(&report, "BenthicFlagsSet", "info") && report["ceph"] == "HEALTH_WARN", "{report}");
    cluster.ceph(&["osd", "unset", "norebalance"]);
    cluster.ceph(&["osd", "set-group", "nodown", "osd.1"]);
    let report = cluster.look(&[]);
    assert!(is(&report, "BenthicNodown", "warning") && report["verdict"] == "degraded", "{report}");
    assert_eq!(finding(&report, "BenthicNodown").unwrap()["which"], json!(["nodown on osd.1"]));
    cluster.ceph(&["osd", "unset-group", "nodown", "osd.1"]);
}

fn work_under_noout(cluster: &TestCluster<'_>) {
    cluster.ceph(&["osd", "set", "noout"]);
    cluster.home.ok(&["cluster", "kill", "osd.1"]);
    let report = cluster.wait("an OSD that is down", &[], |report| {
        no_alarm(report);
        let is_reported = is(report, "CephOSDDown", "info") && is(report, "BenthicPGsDegraded", "info");
        is_reported && report["availability_percent"] == 100.0
    });
    assert_eq!(finding(&report, "CephOSDDown").unwrap()["which"], json!(["osd.1"]));
    cluster.ceph(&["osd", "unset", "noout"]);
    cluster.wait("an alarm", &[], |report| {
        let is_reported =
            is(report, "CephOSDDownHigh", "error") && is(report, "BenthicPGsDegraded", "warning");
        is_reported && report["verdict"] == "at_risk" && report["availability_percent"] == 100.0
    });
}

fn osds_that_die(cluster: &TestCluster<'_>) {
    cluster.home.ok(&["cluster", "kill", "osd.2"]);
    let report = cluster.wait("placement groups that take no I/O", &[], |report| report["verdict"] == "down");
    assert!(finding(&report, "CephPGsInactive").unwrap()["stops_io"] == true, "{report}");
    assert!(report["availability_percent"].as_f64().unwrap() < 100.0, "{report}");
    let run = cluster.run(&["--exit-status", "--probe-pool", "test"]);
    assert_eq!(run.status.code(), Some(22));
    assert!(json_lines(&run.stderr).iter().all(|line| line["waiting"].is_object()), "{run:?}");
    let report = json_lines(&run.stdout).remove(0);
    assert!(is(&report, "BenthicProbeFailed", "error"), "{report}");
    let next = finding(&report, "BenthicProbeFailed").unwrap()["next"].as_str().unwrap();
    assert!(next.contains("`ceph pg ls-by-pool test`"), "{next}");
    for osd in ["osd.1", "osd.2"] {
        cluster.home.ok(&["cluster", "start", osd]);
    }
    wait_recovered(cluster);
}

fn wait_recovered(cluster: &TestCluster<'_>) {
    cluster.wait("recovery", &[], |report| {
        let states = report["numbers"]["pgs_by_state"].as_object().unwrap();
        is_well(report) && states.keys().all(|state| state.starts_with("active+clean"))
    });
}

/// No OSD is left to report that the others died. The monitors consider them up for a quarter of an
/// hour, and the report must not.
fn all_osds_that_die_at_once(cluster: &TestCluster<'_>) {
    let osds = ["osd.0", "osd.1", "osd.2"];
    let state = status(cluster.home);
    for osd in osds {
        let pid = i32::try_from(daemon(&state, osd)["pid"].as_u64().unwrap()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    let report = cluster.look(&[]);
    assert_eq!(
        (&report["verdict"], &report["availability_percent"]),
        (&json!("down"), &json!(0.0)),
        "{report}"
    );
    assert!(is(&report, "BenthicOSDNoAnswer", "error"), "{report}");
    let (monitors, own) = (&report["sources"]["monitors"], &report["sources"]["benthic"]);
    assert_ne!(monitors["verdict"], "down", "the monitors have not noticed: {report}");
    assert_eq!((&own["verdict"], &own["availability_percent"]), (&json!("down"), &json!(0.0)), "{report}");
    assert!(monitors["age_s"].is_u64() && own["age_s"].is_u64(), "{report}");
    let answers = &report["numbers"]["osd_answers"];
    assert_eq!(answers["answered"], json!([]), "{report}");
    assert!(!answers["silent"].as_array().unwrap().is_empty(), "{report}");
    let run = cluster.run(&["--exit-status"]);
    assert_eq!(run.status.code(), Some(22));
    let page = cluster.home.ok(&["--store", &cluster.store, "health"]);
    assert!(
        page.starts_with("verdict       down: ") && page.contains("\navailability  0%; by the monitors "),
        "{page}"
    );
    assert!(page.contains("up, 3 in, of 3, say the monitors (") && page.contains("; 0 of "), "{page}");
    let args = ["--store", &cluster.store, "exporter", "--listen", "127.0.0.1:0"];
    let metrics = Server::start(cluster.home, &args).ask("GET /metrics", "x");
    for line in ["benthic_health_verdict 3", "benthic_availability_percent 0"] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line} in {metrics}");
    }
    assert!(metrics.contains("{ceph_daemon=\"osd.1\"} 0\n"), "{metrics}");
    for osd in osds {
        cluster.home.ok(&["cluster", "start", osd]);
    }
    wait_recovered(cluster);
}

fn watch_repeats_the_report(cluster: &TestCluster<'_>) {
    let run = cluster.run(&["--watch", "--interval", "1", "--count", "2"]);
    let reports = json_lines(printed(&run, &["--watch"]).as_bytes());
    assert_eq!(reports.len(), 2);
    assert!(reports[0]["unix_s"].as_u64() < reports[1]["unix_s"].as_u64());
}

fn the_exporter_serves_metrics(cluster: &TestCluster<'_>) {
    let args = ["--store", &cluster.store, "exporter", "--listen", "127.0.0.1:0"];
    let exporter = Server::start(cluster.home, &args);
    assert!(exporter.url.ends_with("/metrics"), "{}", exporter.url);
    let ask = |head: &str| exporter.ask(head, "x");
    let answer = ask("GET /metrics");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains("text/plain; version=0.0.4"), "{answer}");
    assert!(answer.contains("ceph_osd_up{ceph_daemon=\"osd.2\"} 1\n"), "{answer}");
    assert!(
        answer.contains("name=\"new\\nline\"} 1\n") && answer.contains("\nbenthic_health_verdict "),
        "{answer}"
    );
    let rates =
        ["benthic_client_read_bytes_per_second ", "benthic_recovery_bytes_per_second ", "ceph_pool_stored{"];
    for name in rates.into_iter().chain(["benthic_pool_write_operations_per_second{"]) {
        assert!(answer.contains(&format!("\n{name}")), "{name} in {answer}");
    }
    // No method was called since the exporter started.
    for metric in ["calls", "failures", "busy_seconds"] {
        let of_method = "library=\"benthic_1\",class=\"hello\",method=\"say\"";
        let sample = format!("benthic_class_{metric}_total{{{of_method}}} 0\n");
        wait::until(&sample, || ask("GET /metrics").contains(&sample));
    }
    assert!(ask("GET /-/health").ends_with("\r\n\r\nok\n"));
    assert!(ask("GET /").starts_with("HTTP/1.1 404 "));
    assert!(ask("POST /metrics").starts_with("HTTP/1.1 405 "));
    assert_eq!(exporter.stop(Signal::TERM), Some(143));
}

fn a_lost_manager_is_reported(cluster: &TestCluster<'_>) {
    let pid = daemon(&status(cluster.home), "mgr.a")["pid"].as_u64().unwrap();
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let report = cluster.look(&[]);
    kill_process(pid, Signal::CONT).unwrap();
    // On a slow machine, the monitors may notice the failure first.
    assert!(is(&report, "BenthicMgrSilent", "error") || is(&report, "BenthicMgrDown", "error"), "{report}");
    check_report_without_manager(&report);
    cluster.wait_healthy();

    cluster.home.ok(&["cluster", "kill", "mgr.a"]);
    let report = cluster.wait("the monitors to notice", &[], |report| is(report, "BenthicMgrDown", "error"));
    check_report_without_manager(&report);
    assert_eq!(cluster.run(&["--exit-status"]).status.code(), Some(21));
    cluster.home.ok(&["cluster", "start", "mgr.a"]);
    cluster.wait_healthy();
}

fn check_report_without_manager(report: &Value) {
    assert_eq!((&report["verdict"], &report["is_stale"]), (&json!("at_risk"), &json!(true)), "{report}");
    let numbers = &report["numbers"];
    assert_eq!((numbers["osds"].as_array().unwrap().len(), &numbers["monitors"]["a"]), (3, &json!(true)));
    assert!(numbers["pgs"].as_u64().unwrap() > 0 && numbers["fullest_osd"].is_null(), "{report}");
    assert!(report["missing"][0]["what"].as_str().unwrap().contains("usage"), "{report}");
}

fn no_monitor(cluster: &TestCluster<'_>) {
    cluster.home.ok(&["cluster", "kill", "mon.a"]);
    let error = failed(&cluster.run(&["--exit-status"]), 9);
    assert!(error.contains("monitor"), "{error}");

    // `--watch` waits for the monitors instead of failing.
    let watched = cluster.run(&["--watch", "--count", "1", "--exit-status"]);
    let report = json_lines(&watched.stdout).remove(0);
    assert!(watched.status.code() == Some(22) && is(&report, "BenthicMonNoAnswer", "error"), "{report}");
    let args = ["--store", &cluster.store, "exporter", "--listen", "127.0.0.1:0", "--interval", "1"];
    let exporter = Server::start(cluster.home, &[&args[..], &["--probe-pool", "gone"]].concat());
    let metrics = exporter.ask("GET /metrics", "x");
    assert!(metrics.contains("\nbenthic_health_verdict 3\n") && !metrics.contains("\nceph_"), "{metrics}");
    for unknown in ["benthic_availability_percent", "benthic_mgr_", "benthic_osd"] {
        assert!(!metrics.contains(&format!("\n{unknown}")), "{unknown} in {metrics}");
    }
    assert!(
        metrics.contains("{name=\"BenthicMonNoAnswer\",severity=\"error\",stops_io=\"1\"} 1\n"),
        "{metrics}"
    );
    assert!(exporter.ask("GET /-/health", "x").ends_with("\r\n\r\nok\n"));
    cluster.home.ok(&["cluster", "start", "mon.a"]);
    let mut metrics = String::new();
    wait::until("metrics of the cluster", || {
        metrics = exporter.ask("GET /metrics", "x");
        metrics.contains("\nbenthic_client_write_operations_per_second ")
    });
    assert!(metrics.contains("\nceph_osd_up{ceph_daemon=\"osd.2\"} "), "{metrics}");
    // The exporter already runs, so a wrong pool name can no longer be an argument error.
    assert!(metrics.contains("{name=\"BenthicProbeRefused\""), "{metrics}");
    assert_eq!(exporter.stop(Signal::INT), Some(130));
}

#[test]
fn health_refuses_a_store_in_a_directory() {
    let home = Home::with_pool();
    let error = home.fails(7, &["health"]);
    assert!(error.contains("benthic fsck") && error.contains("--store ceph:"), "{error}");
    home.fails(2, &["--store", "ceph:", "health", "--count", "2"]);
}
