//! The placement of pools at sites: the test shows, checks, plans, applies and undoes placements on
//! a cluster with three sites.

use crate::support::{CLUSTER_DIR, ClusterCleanup, Home, daemon, failed, printed, shared_store, status};
use benthic_testkit::wait;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::process::{Command, Output};

const PLAN: &str = "near-at-um.plan.json";

/// A cluster with sites in a test's directory, and its clients.
struct Sites<'a> {
    home: &'a Home,
    conf: String,
    store: String,
}

impl Sites<'_> {
    fn run(&self, args: &[&str]) -> Output {
        self.home.run(&[&["--json", "--store", &self.store, "placement"], args].concat())
    }

    fn ok(&self, args: &[&str]) -> Value {
        let text = printed(&self.run(args), args);
        serde_json::from_str(text.lines().last().unwrap_or("null")).unwrap()
    }

    #[track_caller]
    fn fails(&self, status: i32, args: &[&str]) -> String {
        failed(&self.run(args), status)
    }

    fn ceph(&self, args: &[&str]) -> String {
        let output = Command::new("ceph").args(["--conf", &self.conf]).args(args).output().unwrap();
        printed(&output, args)
    }

    fn ask(&self, args: &[&str]) -> Value {
        serde_json::from_str(&self.ceph(&[args, &["-f", "json"]].concat())).unwrap()
    }

    fn pool(&self, name: &str, replicas: &str) {
        self.ceph(&["osd", "pool", "create", name, "32"]);
        self.ceph(&["osd", "pool", "application", "enable", name, "benthic"]);
        self.ceph(&["osd", "pool", "set", name, "size", replicas]);
    }

    /// Buckets and rules.
    fn crush(&self) -> (Value, Value) {
        let mut crush = self.ask(&["osd", "crush", "dump"]);
        (crush["buckets"].take(), crush["rules"].take())
    }

    fn crush_version(&self) -> Value {
        self.ask(&["osd", "dump"])["crush_version"].take()
    }

    /// The acting OSDs of each placement group of a pool.
    fn placement(&self, pool: &str) -> Vec<(Value, Value)> {
        let mut pgs = self.ask(&["pg", "ls-by-pool", pool]);
        let pgs = pgs["pg_stats"].as_array_mut().unwrap();
        pgs.iter_mut().map(|pg| (pg["pgid"].take(), pg["acting"].take())).collect()
    }

    fn sites_of(&self, pool: &str) -> Vec<Value> {
        self.ok(&["show", "--pool", pool])["sites"].as_array().unwrap().clone()
    }

    fn wait_clean(&self) {
        wait::until("active+clean", || {
            let pgs = self.ask(&["pg", "stat"]);
            let states = pgs["pg_summary"]["num_pg_by_state"].as_array().unwrap();
            states.iter().all(|state| state["name"] == "active+clean")
        });
    }

    /// Adds a rule, as text, to the CRUSH map.
    fn add_rule(&self, rule: &str) {
        let (map, text) = (self.home.path("crush"), self.home.path("crush.txt"));
        let (map, text) = (map.to_str().unwrap(), text.to_str().unwrap());
        self.ceph(&["osd", "getcrushmap", "-o", map]);
        let run = |args: &[&str]| printed(&Command::new("crushtool").args(args).output().unwrap(), args);
        run(&["-d", map, "-o", text]);
        fs::write(text, fs::read_to_string(text).unwrap() + rule).unwrap();
        run(&["-c", text, "-o", map]);
        self.ceph(&["osd", "setcrushmap", "-i", map]);
    }
}

#[test]
fn the_primaries_of_a_pool_go_to_a_site_and_back() {
    let home = Home::bare();
    let _removed = ClusterCleanup(&home, &[CLUSTER_DIR]);
    home.ok(&["cluster", "up", "--sites", "um,msu,wsu", "--osds", "6"]);
    let conf = home.path("benthic-cluster").canonicalize().unwrap().join("ceph.conf");
    let conf = conf.to_str().unwrap().to_owned();
    let sites = Sites { home: &home, store: format!("ceph:?conf={conf}"), conf };
    sites.pool("near", "3");
    sites.pool("other", "3");
    home.ok(&[
        "--store",
        &sites.store,
        "bench",
        "write",
        "near",
        "--size",
        "64KiB",
        "--count",
        "64",
        "--keep",
    ]);
    sites.wait_clean();
    wait::until("the manager to have heard of all objects", || {
        let pgs = sites.ask(&["pg", "ls-by-pool", "near"]);
        let objects = pgs["pg_stats"].as_array().unwrap().iter().map(|pg| &pg["stat_sum"]["num_objects"]);
        objects.filter_map(Value::as_u64).sum::<u64>() == 64
    });

    let shown = sites.ok(&["show", "--pool", "near"]);
    assert_eq!((&shown["domain"], &shown["rule"]), (&json!("datacenter"), &json!("replicated_rule")));
    for site in shown["sites"].as_array().unwrap() {
        assert_eq!((&site["osds"], &site["replicas"]), (&json!(2), &json!(32)), "{shown}");
        assert!(site["primaries"].as_u64().unwrap() < 32, "{shown}");
    }
    printed(&sites.run(&["lint"]), &["lint"]);

    placement_groups_are_counted(&sites);
    each_site_is_measured(&sites);
    impossible_plans_are_refused(&sites);
    a_plan_for_a_changed_map_is_refused(&sites);
    applied_and_undone(&sites);
    more_and_fewer_replicas(&sites);
    rules_that_look_healthy(&sites);
    a_site_that_is_down(&sites);

    a_manager_that_does_not_answer(&sites);
}

fn placement_groups_are_counted(sites: &Sites<'_>) {
    let before = sites.crush_version();
    let pgs = |args: &[&str]| sites.home.run(&[&["--json", "--store", &sites.store, "pgs"], args].concat());
    let checked = pgs(&["check"]);
    let report: Value = serde_json::from_slice(checked.stdout.trim_ascii()).unwrap();
    let group = &report["groups"][0];
    let of =
        |name: &str| group["pools"].as_array().unwrap().iter().find(|pool| pool["pool"] == name).unwrap();
    assert_eq!(
        (&group["osds"], &of("near")["pg_num"], &of("near")["replicas"]),
        (&json!(6), &json!(32), &json!(3))
    );
    // Two pools of 32 placement groups, and the manager's own pool, on six OSDs.
    let per_osd = group["replicas_per_osd"].as_f64().unwrap();
    assert!((32.0..34.0).contains(&per_osd), "{report}");
    let checks: Vec<_> =
        report["findings"].as_array().unwrap().iter().map(|finding| &finding["check"]).collect();
    assert!(checks.contains(&&json!("few")) && !checks.contains(&&json!("many")), "{report}");
    assert_eq!(checked.status.code(), Some(1));
    let last = String::from_utf8_lossy(&checked.stderr).trim_end().lines().last().unwrap().to_owned();
    let last: Value = serde_json::from_str(&last).unwrap();
    let count = report["findings"].as_array().unwrap().len();
    let counted = if count == 1 { "1 finding".to_owned() } else { format!("{count} findings") };
    assert_eq!(last["error"]["message"], format!("{counted} in 1 group of pools"));

    // One pool has little data, and the other none.
    let suggested = crate::support::json_lines(&pgs(&["suggest"]).stdout);
    let of = |name: &str| suggested.iter().find(|pool| pool["pool"] == name).unwrap();
    assert_eq!((&of("near")["basis"], &of("near")["no_advice"]), (&json!("assumed"), &Value::Null));
    assert!(of("near")["assumption"].as_str().unwrap().contains("equal shares"), "{suggested:?}");
    assert_eq!((&of("other")["suggested"], &of("other")["no_advice"]), (&Value::Null, &json!("it is empty")));
    let suggested = crate::support::json_lines(&pgs(&["suggest", "--share", "near=90"]).stdout);
    let near = suggested.iter().find(|pool| pool["pool"] == "near").unwrap();
    assert_eq!(
        (&near["pg_num"], &near["suggested"]),
        (&json!(32), &json!(128)),
        "180 fit, and 128 is the power below"
    );
    assert!(near["assumption"].as_str().unwrap().contains("--share"), "{near}");
    let args = ["suggest", "--share", "near=90", "--share", "other=20"];
    assert!(failed(&pgs(&args), 6).contains("110%"));
    assert!(failed(&pgs(&["suggest", "--share", "far=1"]), 3).contains("no such pool"));
    failed(&pgs(&["suggest", "--share", "near"]), 2);
    assert_eq!(sites.crush_version(), before);
}

fn each_site_is_measured(sites: &Sites<'_>) {
    let seen = sites.ok(&["measure", "--pool", "other", "--from", "um,wsu", "--seconds", "1"]);
    let places = seen["places"].as_array().unwrap();
    assert_eq!(places.iter().map(|place| &place["place"]).collect::<Vec<_>>(), ["um", "wsu"]);
    for place in places {
        for name in ["read_4_kib_ms", "write_4_kib_ms", "read_4_mib_mib_per_s", "write_4_mib_mib_per_s"] {
            assert!(place[name].as_f64().is_some_and(|value| value > 0.0), "{name}: {seen}");
        }
        // A write waits for replicas at other sites, 10 ms away.
        assert!(place["write_4_kib_ms"].as_f64().unwrap() >= 10.0, "{seen}");
    }
    let left = || sites.home.ok(&["--store", &sites.store, "ls", "other", "--all-namespaces"]);
    assert_eq!(left(), "", "nothing is left");

    let bench =
        |args: &[&str]| sites.home.run(&[&["--json", "--store", &sites.store, "bench"], args].concat());
    let from = ["--from", "um,msu,wsu", "--count", "20"];
    let write = [&["write", "other", "--size", "4KiB", "--keep", "--label", "kept"], &from[..]].concat();
    let sums = |output: &Output, args: &[&str]| -> Value {
        serde_json::from_str(printed(output, args).trim()).unwrap()
    };
    let together = sums(&bench(&write), &write);
    let sum: f64 = together["places"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|place| place["operations_per_s"].as_f64())
        .sum();
    assert!((together["operations_per_s"].as_f64().unwrap() - sum).abs() < 1e-6, "{together}");
    assert_eq!(left().lines().count(), 60, "each place wrote its own");
    let seq = ["seq", "other", "--label", "kept", "--from", "um,wsu"];
    let read = sums(&bench(&seq), &seq);
    assert!(read["places"].as_array().unwrap().iter().all(|place| place["operations"] == 60), "{read}");
    assert!(failed(&bench(&["seq", "other", "--label", "none"]), 3).contains("nothing to read"));
    let error = failed(&bench(&["seq", "other", "--from", "um,mars"]), 3);
    assert!(error.contains("mars"), "{error}");
    assert!(failed(&bench(&["seq", "other", "--from", "um,um"]), 6).contains("once"));
}

fn impossible_plans_are_refused(sites: &Sites<'_>) {
    let before = sites.crush();
    let refused = |status, pool, site, more: &[&str]| {
        sites.fails(status, &[&["plan", "--pool", pool, "--primary-site", site], more].concat())
    };
    assert!(refused(3, "near", "mars", &[]).contains("msu, um, wsu"));
    assert!(refused(6, "near", "um", &["--domain", "planet"]).contains("planet"));
    assert!(refused(3, "far", "um", &[]).contains("benthic pool ls"));
    // Four replicas need three more, but the two other sites have one host each.
    sites.pool("many", "4");
    assert!(refused(11, "many", "um", &[]).contains("too few hosts"));
    sites.ceph(&["osd", "pool", "delete", "many", "many", "--yes-i-really-really-mean-it"]);
    assert!(refused(11, "near", "um", &["--replicas", "4"]).contains("too few hosts"));
    assert!(refused(6, "near", "um", &["--replicas", "1"]).contains("no copy"));
    assert!(refused(11, "near", "um", &["--replicas", "11"]).contains("\"replicas_max\":\"10\""));
    sites.ceph(&["osd", "pool", "create", "coded", "8", "8", "erasure"]);
    assert!(refused(7, "coded", "um", &[]).contains("erasure-coded"));
    sites.ceph(&["osd", "pool", "delete", "coded", "coded", "--yes-i-really-really-mean-it"]);
    sites.ceph(&["osd", "crush", "rule", "rm", "erasure-code"]);
    assert!(!sites.home.path(PLAN).exists());
    assert_eq!(sites.crush(), before);
}

fn a_plan_for_a_changed_map_is_refused(sites: &Sites<'_>) {
    let plan = ["plan", "--pool", "near", "--primary-site", "um"];
    sites.ok(&plan);
    assert!(sites.fails(4, &plan).contains("--out"), "a plan is not overwritten");
    sites.ceph(&["osd", "crush", "add-bucket", "spare", "host"]);
    let before = sites.crush();
    assert!(sites.fails(5, &["apply", PLAN]).contains("CRUSH map has changed"));
    assert_eq!(sites.crush(), before);
    sites.ceph(&["osd", "crush", "rm", "spare"]);
    assert!(
        sites.fails(5, &["apply", PLAN]).contains("CRUSH map has changed"),
        "also if it was changed back"
    );
    fs::remove_file(sites.home.path(PLAN)).unwrap();
    let file = sites.home.file("no.plan", "{}");
    assert!(sites.fails(6, &["apply", file.to_str().unwrap()]).contains("not a placement plan"));
}

fn applied_and_undone(sites: &Sites<'_>) {
    let (before, version) = (sites.crush(), sites.crush_version());
    let (near, other) = (sites.placement("near"), sites.placement("other"));
    let plan = sites.ok(&["plan", "--pool", "near", "--primary-site", "um"])["plan"].take();
    assert_eq!((sites.crush(), sites.crush_version()), (before.clone(), version), "a plan changes nothing");
    let effect = &plan["effect"];
    let moving = effect["replicas_moving"].as_u64().unwrap();
    assert!(
        moving > 0 && moving < 96 && effect["bytes_moving"].as_u64() < effect["bytes"].as_u64(),
        "{plan}"
    );

    // A client with read-only capabilities changes nothing.
    let key = sites.ceph(&["auth", "get-or-create", "client.looks", "mon", "allow r", "mgr", "allow r"]);
    let keyring = sites.conf.replace("ceph.conf", "keyring");
    fs::write(&keyring, fs::read_to_string(&keyring).unwrap() + "\n" + &key).unwrap();
    let looks =
        Sites { store: format!("{}&id=client.looks", sites.store), conf: sites.conf.clone(), ..*sites };
    assert_eq!(looks.ok(&["show", "--pool", "near"])["pgs"], 32);
    assert!(looks.fails(8, &["apply", PLAN]).contains("allow rw"));
    assert_eq!(sites.crush(), before);

    for _ in ["applied", "applied already"] {
        assert_eq!(sites.ok(&["apply", PLAN])["outcome"], "applied");
        let shown = sites.ok(&["show", "--pool", "near"]);
        for (found, foreseen) in
            shown["sites"].as_array().unwrap().iter().zip(effect["after"].as_array().unwrap())
        {
            assert_eq!(found, foreseen);
            assert_eq!(found["primaries"], if found["site"] == "um" { 32 } else { 0 });
            assert_eq!(found["replicas"], 32);
        }
        for problem in ["undersized", "repeating", "doubled_at_a_site", "unclean"] {
            assert_eq!(shown[problem], 0, "{shown}");
        }
    }
    assert_eq!(sites.placement("other"), other, "another pool stays");
    let again = ["plan", "--pool", "near", "--primary-site", "um", "--out", "again.json"];
    assert!(sites.fails(4, &again).contains("already"));
    let read = ["--json", "--store", &sites.store, "bench", "seq", "near"];
    let read: Value = serde_json::from_str(&sites.home.ok(&read)).unwrap();
    assert_eq!((&read["operations"], &read["errors"]), (&json!(64), &json!(0)));
    let settings = sites.ceph(&["config", "dump"]);
    assert!(!settings.contains("osd_max_backfills"), "{settings}");
    let found = sites.run(&["lint"]);
    let findings = String::from_utf8(found.stdout).unwrap();
    assert!(findings.contains("overlapping-roots") && !findings.contains("repeats-osd"), "{findings}");

    for _ in ["undone", "undone already"] {
        assert_eq!(sites.ok(&["undo", PLAN])["outcome"], "undone");
        assert_eq!(sites.crush(), before, "to the last bit of each weight");
        // The manager shows a change a little later.
        wait::until("the old placement", || sites.placement("near") == near);
    }
}

/// Reduces three replicas to two, raises them to three again, and undoes each step.
fn more_and_fewer_replicas(sites: &Sites<'_>) {
    let (before, near) = (sites.crush(), sites.placement("near"));
    let plan = |replicas: &str, file: &str| {
        let args = ["plan", "--pool", "near", "--primary-site", "um", "--replicas", replicas, "--out", file];
        sites.ok(&args)["plan"].take()
    };
    let is = |replicas: usize, min_size: usize| {
        let pools = sites.ask(&["osd", "dump"]);
        let pools = pools["pools"].as_array().unwrap();
        let pool = pools.iter().find(|pool| pool["pool_name"] == "near").unwrap();
        assert_eq!((&pool["size"], &pool["min_size"]), (&json!(replicas), &json!(min_size)));
        let shown = sites.ok(&["show", "--pool", "near"]);
        for problem in ["undersized", "repeating", "doubled_at_a_site", "unclean"] {
            assert_eq!(shown[problem], 0, "{shown}");
        }
        let read = sites.home.ok(&["--json", "--store", &sites.store, "bench", "seq", "near"]);
        let read: Value = serde_json::from_str(&read).unwrap();
        assert_eq!((&read["operations"], &read["errors"]), (&json!(64), &json!(0)), "nothing is lost");
        shown
    };
    let is_as_planned = |plan: &Value, replicas, min_size| {
        let shown = is(replicas, min_size);
        assert_eq!(shown["sites"], plan["effect"]["after"], "as it was foreseen");
        let um = shown["sites"].as_array().unwrap().iter().find(|site| site["site"] == "um").unwrap();
        assert_eq!((&um["primaries"], &um["replicas"]), (&json!(32), &json!(32)), "{shown}");
    };

    let fewer = plan("2", "two.json");
    let resize = &fewer["resize"];
    assert_eq!(
        (&resize["replicas"], &resize["old_min_size"], &resize["min_size"]),
        (&2.into(), &2.into(), &2.into())
    );
    let number = |name: &str| resize[name].as_u64().unwrap();
    let kept = number("disk_bytes") / 3 * 2;
    assert!(kept > 0 && number("new_disk_bytes").abs_diff(kept) < 3, "{resize}");
    assert!(fewer["effect"]["warnings"].to_string().contains("min_size stays 2"), "{fewer}");
    // The cluster has changed since the plan was made.
    sites.ceph(&["osd", "pool", "set", "near", "min_size", "3"]);
    assert!(sites.fails(5, &["apply", "two.json"]).contains("min_size has changed"));
    assert_eq!(sites.ok(&["undo", "two.json"])["outcome"], "undone");
    let min_size = sites.ask(&["osd", "pool", "get", "near", "min_size"])["min_size"].take();
    assert_eq!(min_size, 3, "what somebody raised is not lowered");
    // The state after the program ended between setting `size` and `min_size`, which the monitors
    // change too.
    sites.ceph(&["osd", "pool", "set", "near", "size", "2"]);
    sites.ceph(&["osd", "pool", "set", "near", "min_size", "1"]);
    for _ in ["applied already", "and again"] {
        assert_eq!(sites.ok(&["apply", "two.json"])["outcome"], "applied");
        is_as_planned(&fewer, 2, 2);
    }

    let again = ["plan", "--pool", "near", "--primary-site", "um", "--out", "again.json", "--replicas"];
    let again = |replicas: &'static str| [&again[..], &[replicas]].concat();
    assert!(sites.fails(4, &again("2")).contains("already"));
    sites.ceph(&["config", "set", "mon", "mon_max_pg_per_osd", "30"]);
    assert!(sites.fails(11, &again("3")).contains("\"mon_max_pg_per_osd\":\"30\""));
    sites.ceph(&["config", "rm", "mon", "mon_max_pg_per_osd"]);

    let more = plan("3", "three.json");
    assert_eq!(
        (&more["new_rule"], &more["adds_rule"]),
        (&more["old_rule"], &json!(false)),
        "only the number"
    );
    assert_eq!(more["effect"]["replicas_moving"], 32, "{more}");
    assert_eq!(sites.ok(&["apply", "three.json"])["outcome"], "applied");
    is_as_planned(&more, 3, 2);
    // A number of replicas that the plan does not know.
    sites.ceph(&["osd", "pool", "set", "near", "size", "4"]);
    assert!(sites.fails(5, &["undo", "three.json"]).contains("replicas"));
    sites.ceph(&["osd", "pool", "set", "near", "size", "3"]);
    for _ in ["undone", "undone already"] {
        assert_eq!(sites.ok(&["undo", "three.json"])["outcome"], "undone");
        is_as_planned(&fewer, 2, 2);
    }

    // Another pool uses the rule, so the rule stays until that pool has a different one.
    sites.ceph(&["osd", "pool", "set", "other", "crush_rule", "benthic-um-first"]);
    assert_eq!(sites.ok(&["undo", "two.json"])["outcome"], "undone");
    is(3, 2);
    // The manager shows a change a little later.
    wait::until("the old placement", || sites.placement("near") == near);
    assert!(
        sites.crush() != before && sites.ceph(&["osd", "crush", "rule", "ls"]).contains("benthic-um-first")
    );
    sites.ceph(&["osd", "pool", "set", "other", "crush_rule", "replicated_rule"]);
    sites.wait_clean();
    assert_eq!(sites.ok(&["undo", "two.json"])["outcome"], "undone");
    assert_eq!(sites.crush(), before);
}

fn rules_that_look_healthy(sites: &Sites<'_>) {
    let steps = "step take um\nstep chooseleaf firstn 1 type host\nstep emit\nstep take default\n\
        step chooseleaf firstn -1 type datacenter\nstep emit";
    sites.add_rule(&format!("rule naive {{\nid 9\ntype replicated\nmin_size 1\nmax_size 10\n{steps}\n}}\n"));
    sites.ceph(&["osd", "pool", "set", "other", "crush_rule", "naive"]);
    sites.pool("four", "4");
    let found = sites.run(&["lint"]);
    assert_eq!(found.status.code(), Some(1));
    let findings = crate::support::json_lines(&found.stdout);
    let of = |check: &str, rule: &str| {
        let found = findings.iter().find(|finding| finding["check"] == check && finding["rule"] == rule);
        found.unwrap_or_else(|| panic!("{check} of {rule}: {findings:?}")).clone()
    };
    assert_eq!(of("repeats-osd", "naive")["pools"], json!(["other"]));
    assert_eq!(of("overlapping-roots", "naive")["pools"], json!(["other"]));
    assert_eq!(of("too-few-osds", "replicated_rule")["pools"], json!(["four"]));
    wait::until("placement groups", || {
        sites.run(&["lint"]).stdout.windows(10).any(|part| part == b"undersized")
    });
    sites.ceph(&["osd", "pool", "set", "other", "crush_rule", "replicated_rule"]);
    sites.ceph(&["osd", "pool", "delete", "four", "four", "--yes-i-really-really-mean-it"]);
    sites.ceph(&["osd", "crush", "rule", "rm", "naive"]);
    sites.wait_clean();
}

fn a_site_that_is_down(sites: &Sites<'_>) {
    sites.home.ok(&["cluster", "kill", "osd.1"]);
    wait::until("the monitor to notice", || status(sites.home)["checks"].to_string().contains("OSD_DOWN"));
    let plan = ["plan", "--pool", "near", "--primary-site", "um", "--out", "down.json"];
    let error = sites.fails(9, &plan);
    assert!(error.contains("msu") && error.contains("osd.1"), "{error}");
    let at = |site: &Value| site["site"] == "msu" && site["osds_serving"] == 1;
    assert!(sites.sites_of("near").iter().any(at));
    sites.home.ok(&["cluster", "start", "osd.1"]);
}

/// The manager first hangs, then dies.
fn a_manager_that_does_not_answer(sites: &Sites<'_>) {
    let before = (sites.crush(), sites.crush_version());
    let plan = ["plan", "--pool", "near", "--primary-site", "um", "--out", "hung.json"];
    let is_refused = |args: &[&str]| {
        let error = sites.fails(9, args);
        assert!(error.contains("the manager did not answer") && error.contains("ceph mgr"), "{error}");
    };
    let pid = daemon(&status(sites.home), "mgr.a")["pid"].as_i64().unwrap();
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    is_refused(&plan);
    is_refused(&["apply", "two.json"]);
    assert!(!sites.home.path("hung.json").exists());
    assert_eq!((sites.crush(), sites.crush_version()), before);
    sites.home.ok(&["cluster", "kill", "mgr.a"]);
    is_refused(&["show"]);
}

#[test]
fn a_plan_needs_a_second_site() {
    let home = Home::bare();
    let store = shared_store();
    let pool = format!("one-site-{}", std::process::id());
    home.ok(&["--store", &store, "pool", "create", &pool]);
    let placement = |args: &[&str]| home.run(&[&["--store", &store, "placement"], args].concat());
    let shown = printed(&placement(&["show", "--pool", &pool]), &["show"]);
    let plans = ["plan", "--pool", &pool, "--primary-site"];
    let site = shown.lines().nth(2).unwrap().split_whitespace().next().unwrap().to_owned();
    let error = failed(&placement(&[&plans[..], &[&site]].concat()), 6);
    home.ok(&["--store", &store, "pool", "rm", &pool, "--yes", &pool]);
    assert!(error.contains("only one site"), "{error}");
    let error = home.fails(7, &["--store", "mem:", "placement", "show"]);
    assert!(error.contains("--store ceph:"), "{error}");
}

/// A cluster of the size of CERN's, to which the published numbers refer.
#[test]
fn a_hypothetical_cluster_is_simulated() {
    let home = Home::bare();
    let shape =
        ["--rooms", "2", "--racks", "12", "--hosts", "48", "--osds-per-host", "24", "--pg-num", "38400"];
    let changes = ["--add-host", "--lose", "osd", "--lose", "rack", "--report", "report.html"];
    let simulate = [&["--json", "placement", "simulate"], &shape[..], &changes].concat();
    let found: Value = serde_json::from_str(home.ok(&simulate).trim()).unwrap();
    assert_eq!((&found["osds"], &found["load"]["domain"]), (&json!(1_152), &json!("rack")));
    let spread = &found["distribution"];
    assert_eq!((&spread["mean"], &spread["incomplete"]), (&json!(100.0), &json!(0)));
    let by_replicas = found["osds_by_replicas"].as_array().unwrap();
    let number = |value: &Value| value.as_u64().unwrap();
    assert_eq!(by_replicas.iter().map(|bin| number(&bin[1])).sum::<u64>(), 1_152);
    assert_eq!(by_replicas.iter().map(|bin| number(&bin[0]) * number(&bin[1])).sum::<u64>(), 3 * 38_400);
    let change = |what: &str| {
        found["changes"].as_array().unwrap().iter().find(|change| change["what"] == what).unwrap()
    };
    let (grown, osd, rack) = (change("1 host more"), change("an OSD lost"), change("a rack lost"));
    let share = |change: &Value, name: &str| change[name].as_f64().unwrap();
    assert!((share(grown, "ideal_share") - 24.0 / 1_176.0).abs() < 1e-9, "{grown}");
    assert!((0.0204..0.06).contains(&share(grown, "moved_share")), "{grown}");
    assert_eq!((&grown["after"]["incomplete"], &rack["after"]["incomplete"]), (&json!(0), &json!(0)));
    assert!(share(rack, "moved_share") >= share(rack, "ideal_share") * 0.99, "{rack}");
    assert!(share(rack, "hours") > 0.0 && number(&osd["moved"]) < number(&rack["moved"]), "{rack} {osd}");
    // All sets of three different OSDs.
    let three = &found["losses"][0];
    let sets = 1_152.0 * 1_151.0 * 1_150.0 / 6.0;
    assert_eq!(three["failed_osds"], 3);
    assert!(
        three["chance"].as_f64().unwrap() <= 38_400.0 / sets
            && three["chance"].as_f64().unwrap() > 38_000.0 / sets
    );
    let page = fs::read_to_string(home.path("report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("1152 OSDs"), "{page}");
    let again: Value = serde_json::from_str(home.ok(&simulate).trim()).unwrap();
    assert_eq!(again, found, "CRUSH knows no chance");

    let refused = |args: &[&str]| home.fails(6, &[&["placement", "simulate"], args].concat());
    assert!(refused(&["--hosts", "2", "--osds-per-host", "4"]).contains("--domain"));
    assert!(
        refused(&["--hosts", "4", "--racks", "5", "--osds-per-host", "4"]).contains("as many hosts as racks")
    );
    assert!(refused(&["--hosts", "90000", "--osds-per-host", "90000"]).contains("OSDs"));
    assert!(
        refused(&["--hosts", "3", "--osds-per-host", "4", "--lose", "rack"]).contains("all of the cluster")
    );
}
