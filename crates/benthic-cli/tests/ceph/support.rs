//! Helpers for the tests on clusters.

#[path = "../it/support.rs"]
#[allow(dead_code, reason = "shared with the tests of the embedded engine")]
mod home;

pub use home::{Home, Running, failed, json_lines, keys, pattern, printed, run_block, tree};

use benthic_testkit::cluster;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// The default directory of `benthic cluster`.
pub const CLUSTER_DIR: &str = "benthic-cluster";

/// The configuration of the shared cluster.
pub fn shared_conf() -> String {
    cluster::shared_conf().into_os_string().into_string().unwrap()
}

/// The store in the shared cluster.
pub fn shared_store() -> String {
    format!("ceph:?conf={}", shared_conf())
}

/// Removes the clusters in these directories when dropped, however the test ends.
pub struct ClusterCleanup<'a>(pub &'a Home, pub &'static [&'static str]);

impl Drop for ClusterCleanup<'_> {
    fn drop(&mut self) {
        for dir in self.1 {
            let _ = self.0.command(&["cluster", "down", "--remove", "--yes", dir, "--dir", dir]).output();
        }
    }
}

pub fn status(home: &Home) -> Value {
    home.json(&["cluster", "status"]).remove(0)
}

/// The status entry of one daemon.
pub fn daemon<'a>(status: &'a Value, name: &str) -> &'a Value {
    status["daemons"].as_array().unwrap().iter().find(|daemon| daemon["name"] == name).unwrap()
}

/// A command that serves HTTP until it is stopped.
pub struct Server {
    child: Child,
    /// The URL that the command prints.
    pub url: String,
}

impl Server {
    #[track_caller]
    pub fn start(home: &Home, args: &[&str]) -> Server {
        let args = [&["--json"], args].concat();
        let mut child = home.command(&args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url = serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        Server { child, url: url["url"].as_str().unwrap().to_owned() }
    }

    /// Address and port.
    pub fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap().split('/').next().unwrap()
    }

    /// Sends a request, such as `GET /`, with this Host header and returns the whole response.
    pub fn ask(&self, head: &str, host: &str) -> String {
        let mut stream = TcpStream::connect(self.address()).unwrap();
        stream.write_all(format!("{head} HTTP/1.1\r\nhost: {host}\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Sends a signal and returns the exit status.
    pub fn stop(mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
