//! Custom classes: the test runs the commands of docs/guide/classes.md, from the template to the
//! OSDs.

use crate::support::{Home, json_lines, keys, printed, shared_store};
use benthic_core::{Stopwatch, SystemClock};
use benthic_testkit::wait;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Steps that the guide does not show: the OSD log, and a cluster whose class lists do not allow
/// every class.
const BEYOND_THE_GUIDE: &str = r#"
loads() { grep -c "loading mydigest_1" ../benthic-cluster/log/osd.0.log; }
echo "== loads at the first call and at each start: $(loads)"
echo "== health: $(benthic --json health | python3 -c 'import json, sys
print(*[library["name"] for library in json.load(sys.stdin)["numbers"]["libraries"]])')"
benthic --json exporter --listen 127.0.0.1:0 --interval 1 > ../exporter.json &
exporter=$!
until [ -s ../exporter.json ]; do sleep .1; done
benthic exec photos/reef.txt mydigest sum > /dev/null
counted() { python3 -c 'import json, urllib.request
url = json.load(open("../exporter.json"))["url"]
print(urllib.request.urlopen(url).read().decode())' | grep '^benthic_class_calls_total{library="mydigest_1",.*,method="sum"}'; }
for try in $(seq 60); do counted | grep -q ' 1$' && break; sleep .5; done
echo "== counted: $(counted)"
kill $exporter; wait $exporter || true
echo "== without lists"
sed -i '/^osd_class_.*_list/d' "$CEPH_CONF"
benthic cluster kill osd.0 --dir ../benthic-cluster
echo "== an OSD that does not answer"
benthic --json class ls --library mydigest_1 2>&1
echo "== of all libraries"
benthic --json class ls 2>&1
echo "== it answers again"
benthic cluster start osd.0 --dir ../benthic-cluster
benthic exec photos/reef.txt mydigest_2 sum && exit 1 || echo "refused with status $?"
benthic --json class install --print > ../print.json
sed 's/^/printed: /' ../print.json
python3 -c 'import json; print("\n".join(json.load(open("../print.json"))["commands"]))' | sh
benthic cluster kill osd.0 --dir ../benthic-cluster
benthic cluster start osd.0 --dir ../benthic-cluster
echo "== allowed: $(benthic exec photos/reef.txt mydigest_2 sum)"
benthic class install --print
"#;

/// FNV-1a of the guide's object, from the published definition.
fn sum(data: &[u8]) -> String {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", data.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

#[test]
fn the_guide_leads_from_nothing_to_a_class_in_an_osd() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let guide = std::fs::read_to_string(format!("{root}/docs/guide/classes.md")).unwrap();
    let mut blocks: Vec<&str> =
        guide.split("```sh guide\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let end = blocks.pop().unwrap();
    assert!(blocks.len() >= 6 && end.contains("down --remove"), "all of it was found");
    let binary = Path::new(env!("CARGO_BIN_EXE_benthic")).parent().unwrap();
    let script = [&blocks.join("\n"), BEYOND_THE_GUIDE, end].join("\n");
    let script = script.replace("$PWD/target/release", &binary.display().to_string());
    let scratch = tempfile::tempdir().unwrap();
    // Removes the cluster even if the script fails.
    let script = format!(
        "trap 'benthic cluster down --remove --yes benthic-cluster --dir \"$(dirname \"$CEPH_CONF\")\" >&2 || true' EXIT\n{script}\ntrap - EXIT"
    );
    let run = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &script])
        .current_dir(root)
        .env("TMPDIR", scratch.path())
        .env_remove("BENTHIC_STORE")
        .env_remove("CEPH_CONF")
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stdout}\n{stderr}");
    let sum = sum(b"a picture, more or less\n");
    assert_eq!(stdout.matches(&sum).count(), 7, "as output and attribute, of one and of all: {stdout}");
    for expected in [
        "3 passed",
        "1 passed",
        "\n5\n5\n7\n",
        &format!("reef.txt\t{sum}"),
        "mydigest: a digest, computed beside the object",
        "mydigest_1 build",
        "mydigest_2 build",
        "(version 2, mydigest_2",
        "in all OSDs (1)",
        "== loads at the first call and at each start: 2",
        " mydigest_1 mydigest_2",
        "== counted: benthic_class_calls_total{library=\"mydigest_1\",class=\"mydigest\",method=\"sum\"} 1\n",
        "refused with status 8",
        &format!("== allowed: {sum}"),
    ] {
        assert!(stdout.contains(expected), "{expected}: {stdout}\n{stderr}");
    }
    assert!(stderr.contains("still use an older file") && stderr.contains("mydigest_2"), "{stderr}");
    let silent = stdout.split("== an OSD that does not answer\n").nth(1).unwrap();
    let silent = silent.lines().find(|line| line.contains("warning")).unwrap();
    let silent: Value = serde_json::from_str(silent).unwrap();
    let warning = silent["warning"]["message"].as_str().unwrap();
    assert!(warning.starts_with("osd.0: it "), "{warning}");
    let all =
        stdout.split("== of all libraries\n").nth(1).unwrap().split("== it answers again").next().unwrap();
    let warnings: Vec<&str> = all.lines().filter(|line| line.contains("warning")).collect();
    assert!(warnings.len() == 1 && warnings[0].contains("osd.0"), "one warning per OSD: {all}");
    let printed = stdout.lines().find_map(|line| line.strip_prefix("printed: ")).unwrap();
    let printed: Value = serde_json::from_str(printed).unwrap();
    let commands = printed["commands"].to_string();
    assert!(printed["osd_class_load_list"].as_str().unwrap().contains("lock"), "{printed}");
    assert!(commands.contains("mydigest_2 mydigest_3'") && !commands.contains('*'), "{commands}");
}

#[test]
fn every_osd_lists_its_classes() {
    let home = Home::bare();
    let store = shared_store();
    home.ok(&["--store", &store, "pool", "create", "classes-ls"]);
    let listed = home.json(&["--store", &store, "class", "ls", "--library", "benthic_1"]);
    let names: Vec<&Value> = listed.iter().map(|class| &class["class"]).collect();
    assert_eq!(names, ["bucket", "digest", "hello", "lock", "picture", "select"]);
    for class in &listed {
        assert_eq!(keys(class), ["build", "class", "library", "osds", "summary", "version"]);
        assert_eq!((&class["library"], &class["osds"]), (&json!("benthic_1"), &json!([0, 1, 2])), "{class}");
    }
    let all = home.ok(&["--store", &store, "class", "ls"]);
    assert!(all.contains("digest") && all.contains("benthic_1 build"), "{all}");
    let shown = home.json(&["--store", &store, "class", "show", "digest"]).remove(0);
    assert_eq!(shown["methods"][0]["method"], "md5");

    // The warning names each OSD that lacks the library. Ceph's own `lock` is not a Benthic
    // library, so it counts as missing.
    for library in ["nothing_1", "lock"] {
        let none = home.run(&["--store", &store, "--json", "class", "ls", "--library", library]);
        assert_eq!(printed(&none, &[]), "");
        // On a slow machine the command first reports the cause of its wait.
        let warning = json_lines(&none.stderr).into_iter().find(|line| line["waiting"].is_null()).unwrap();
        let warning = warning["warning"]["message"].to_string();
        assert!(warning.contains("osd.0, osd.1, osd.2") && warning.contains(library), "{warning}");
    }
    let at = |class| ["--store", &store, "exec", "classes-ls/o", class, "sum"];
    home.pipe(&["--store", &store, "put", "classes-ls/o", "-"], b"data");
    assert!(home.fails(7, &at("nothing")).contains("benthic class install"));
    assert!(home.fails(7, &["--store", &store, "class", "show", "nothing"]).contains("benthic class ls"));
    // Ceph's own classes are called unchanged: `refcount` rejects the input as invalid.
    home.fails(6, &["--store", &store, "exec", "classes-ls/o", "refcount", "read", "?"]);
    home.ok(&["--store", &store, "pool", "rm", "classes-ls", "--yes", "classes-ls"]);
}

#[test]
fn a_failed_method_explains_itself_and_is_in_the_log_of_its_osd() {
    let home = Home::bare();
    let store = shared_store();
    home.ok(&["--store", &store, "pool", "create", "classes-log"]);
    home.pipe(&["--store", &store, "put", "classes-log/o", "-"], b"data");
    let call = |method| ["--store", &store, "--json", "exec", "classes-log/o", "hello", method];
    let mut osds = Vec::new();
    for (status, method, text) in [
        (6, "fail_after_writing", "this method fails, as its name says"),
        (11, "hoard", "the method needs more memory than its limit"),
        (11, "flood", "the method's output is too large"),
        (13, "panic", "the method panicked: this method panics, as its name says"),
        (13, "write_undeclared", "the method called write_full, which its flags do not declare"),
    ] {
        let run = home.run(&call(method));
        assert_eq!(run.status.code(), Some(status), "{method}: {run:?}");
        let error = json_lines(&run.stderr).pop().unwrap()["error"].clone();
        assert!(error["message"].as_str().unwrap().contains(text), "{error}");
        osds.push(error["context"]["osd"].clone());
    }
    assert!(osds.iter().all(|osd| osd.as_str() == osds[0].as_str() && !osd.is_null()), "{osds:?}");
    let of_panic = |entry: &&Value| entry["method"] == "panic";
    let is_failure = |entry: &&Value| entry["kind"].is_string();
    // An OSD that is busy for longer than the command waits is missing in the answer.
    let mut log = Vec::new();
    wait::until("the OSD to answer", || {
        log = home.json(&["--store", &store, "class", "log", "hello"]);
        log.iter().filter(of_panic).any(|entry| is_failure(&entry))
    });
    let panic = log.iter().filter(of_panic).rfind(is_failure).unwrap();
    // The engine also wrote to the log.
    assert!(log.iter().filter(of_panic).any(|entry| entry["level"] == "error"), "{log:?}");
    let expected = ["class", "client", "kind", "library", "message", "method", "osd", "times", "unix_ms"];
    assert_eq!(keys(panic), expected);
    assert_eq!((&panic["class"], &panic["kind"]), (&json!("hello"), &json!("class_failed")));
    assert!(
        log.iter().any(|entry| entry["osd"] == osds[0].as_str().unwrap().parse::<u64>().unwrap()),
        "{log:?}"
    );
    assert!(panic["client"].as_str().unwrap().starts_with("client."), "{panic}");
    assert!(log.windows(2).all(|pair| pair[0]["unix_ms"].as_u64() <= pair[1]["unix_ms"].as_u64()));
    let mut text = String::new();
    wait::until("the OSD to answer", || {
        text = home.ok(&["--store", &store, "class", "log"]);
        text.contains(" hello.hoard client.")
    });
    assert!(text.contains(" limit_exceeded: the method needs"), "{text}");
    assert_eq!(home.ok(&["--store", &store, "class", "log", "digest"]).matches(" hello.").count(), 0);
    home.ok(&["--store", &store, "pool", "rm", "classes-log", "--yes", "classes-log"]);
}

#[test]
fn print_does_not_wait_for_an_unreachable_cluster() {
    let home = Home::bare();
    let conf = home.file("ceph.conf", "[global]\nmon_host = v2:127.0.0.1:1/0\nauth_client_required = none\n");
    let store = format!("ceph:?conf={}", conf.display());
    let library = home.file("libcls_mydigest_1.so", b"\x7fELF\0__cls_init\0");
    let began = Stopwatch::start(&SystemClock);
    let run = home.run(&["--store", &store, "class", "install", "--print", library.to_str().unwrap()]);
    let text = printed(&run, &[]);
    assert!(began.elapsed() < Duration::from_secs(60));
    assert!(
        String::from_utf8_lossy(&run.stderr).contains("defaults of Debian and Ceph are shown"),
        "{run:?}"
    );
    assert!(
        text.contains("osd_class_load_list 'cephfs hello") && text.contains(" mydigest_1 mydigest_2'"),
        "{text}"
    );
}
