//! A running cluster, accessed through librados by `client.py`.

use benthic_core::ErrorKind;
use serde_json::{Value, json};
use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Once;

const CONF_VARIABLE: &str = "BENTHIC_TEST_CEPH_CONF";
const POOL: &str = "benthic-cls-test";

/// A client of the cluster under test.
pub struct Cluster {
    client: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

/// The result of a method: its output, or the errno.
pub type Answer = Result<Vec<u8>, i32>;

impl Cluster {
    /// Connects and installs the libraries.
    pub fn connect() -> Cluster {
        let conf = env::var_os(CONF_VARIABLE).unwrap_or_else(|| {
            panic!("set {CONF_VARIABLE} to the ceph.conf of a test cluster; `make test` starts one")
        });
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/ceph/client.py");
        // Debian installs python3-rados only for its own Python.
        let mut client = Command::new("/usr/bin/python3")
            .arg(script)
            .arg(conf)
            .arg(POOL)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 and python3-rados are installed");
        let requests = client.stdin.take();
        let replies = BufReader::new(client.stdout.take().unwrap());
        let mut cluster = Cluster { client, requests, replies };
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            cluster.install("benthic_1");
            cluster.install("calls_1");
        });
        cluster
    }

    /// The directory from which the OSDs load class libraries.
    fn class_dir(&mut self) -> PathBuf {
        let reply = self.ask(&json!({ "do": "conf", "key": "osd_class_dir" }));
        PathBuf::from(reply["value"].as_str().unwrap())
    }

    /// Installs a library that this package builds.
    pub fn install(&mut self, name: &str) {
        benthic_ceph::classes::install(&built(name), &self.class_dir()).unwrap();
    }

    /// Installs a copy of an installed library under another name.
    pub fn install_renamed(&mut self, library: &str, name: &str) {
        let class_dir = self.class_dir();
        std::fs::copy(class_dir.join(library), class_dir.join(name)).unwrap();
    }

    fn ask(&mut self, request: &Value) -> Value {
        let requests = self.requests.as_mut().unwrap();
        writeln!(requests, "{request}").unwrap();
        let mut reply = String::new();
        self.replies.read_line(&mut reply).unwrap();
        serde_json::from_str(&reply).unwrap_or_else(|error| panic!("{error}: {request} -> {reply:?}"))
    }

    /// Removes the object if it exists.
    pub fn remove(&mut self, object: &str) {
        let reply = self.ask(&json!({ "do": "remove", "object": object }));
        assert!([0, 2].contains(&reply["errno"].as_i64().unwrap()), "{reply}");
    }

    /// Creates an object with `data` repeated `times` times, an attribute and an omap entry.
    pub fn put(&mut self, object: &str, data: &[u8], times: usize) {
        self.remove(object);
        let request = json!({
            "do": "put", "object": object, "data": hex(data), "times": times,
            "xattrs": { "a": hex(b"1") }, "omap": { "k": hex(b"v") },
        });
        assert_eq!(self.ask(&request)["errno"], 0);
    }

    /// The whole state of the object that a client can see, including its version; `None` if it is
    /// missing.
    pub fn state(&mut self, object: &str) -> Option<Value> {
        let reply = self.ask(&json!({ "do": "state", "object": object }));
        match reply["errno"].as_i64() {
            Some(0) => Some(reply["state"].clone()),
            Some(2) => None,
            _ => panic!("{reply}"),
        }
    }

    pub fn xattr(&mut self, object: &str, name: &str) -> String {
        let state = self.state(object).unwrap();
        String::from_utf8(unhex(state["xattrs"][name].as_str().unwrap())).unwrap()
    }

    pub fn exec(&mut self, object: &str, library: &str, method: &str, input: &[u8]) -> Answer {
        let request = json!({
            "do": "exec", "object": object, "class": library, "method": method, "input": hex(input),
        });
        let reply = self.ask(&request);
        match reply["errno"].as_i64() {
            Some(0) => Ok(unhex(reply["output"].as_str().unwrap())),
            Some(errno) => Err(i32::try_from(errno).unwrap()),
            None => panic!("{reply}"),
        }
    }

    /// The epoch in which each OSD last came up. It changes if an OSD died.
    pub fn boots(&mut self) -> Value {
        let boots = self.ask(&json!({ "do": "boots" }))["boots"].clone();
        assert!(boots.as_object().is_some_and(|osds| !osds.is_empty()), "{boots}");
        boots
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // The client exits at the end of its input.
        self.requests = None;
        let _ = self.client.wait();
    }
}

/// The errno of an error kind.
pub fn errno(kind: ErrorKind) -> i32 {
    kind.row().errno
}

/// The path of a library or example that was built beside this test's binary.
fn built(name: &str) -> PathBuf {
    let binary = env::current_exe().unwrap();
    let profile = binary.parent().and_then(Path::parent).unwrap();
    let file = format!("libcls_{name}.so");
    ["deps", "examples"]
        .map(|dir| profile.join(dir).join(&file))
        .into_iter()
        .find(|path| path.exists())
        .unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}
