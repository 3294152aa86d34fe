//! `benthic image serve`, and real clients of the NBD protocol.

use crate::support::{Home, Running, printed};
use benthic_testkit::wait;
use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

/// A server and its socket.
pub struct Server {
    running: Running,
    socket: String,
    first_uri: String,
}

impl Server {
    pub fn start(home: &Home, args: &[&str]) -> Server {
        // The path of a Unix socket has a length limit, and the program's directory is the test's.
        let socket = home.path("nbd.sock").display().to_string();
        Server::start_at(home, &socket, args)
    }

    pub fn start_at(home: &Home, socket: &str, args: &[&str]) -> Server {
        let server = Server::listen(home, &format!("unix:{socket}"), args);
        assert!(server.first_uri.starts_with("nbd+unix:///"), "{}", server.first_uri);
        Server { socket: socket.to_owned(), ..server }
    }

    /// A server without a known socket.
    pub fn listen(home: &Home, listen: &str, args: &[&str]) -> Server {
        let running =
            Running::start(home.command(&[&["--json", "image", "serve", "--listen", listen], args].concat()));
        let Ok(line) = running.stdout.recv_timeout(Duration::from_secs(40)) else {
            panic!("the server does not start: {:?}", running.stderr.iter().collect::<Vec<_>>());
        };
        let line: Value = serde_json::from_str(&line).unwrap();
        let first_uri = line["uri"].as_str().unwrap().to_owned();
        Server { running, socket: String::new(), first_uri }
    }

    pub fn socket(&self) -> &str {
        &self.socket
    }

    /// The address of the first image, as the server prints it.
    pub fn first_uri(&self) -> &str {
        &self.first_uri
    }

    pub fn uri(&self, image: &str) -> String {
        format!("nbd+unix:///{image}?socket={}", self.socket)
    }

    /// The next line that the server prints.
    pub fn line(&self) -> String {
        self.running.stdout.recv().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.running.pid()
    }

    pub fn signal(&self, signal: Signal) {
        self.running.signal(signal);
    }

    /// Stops the process, and waits for all its threads: they run on for a moment after the signal.
    pub fn freeze(&self) {
        self.signal(Signal::STOP);
        let is_stopped = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
        let threads = format!("/proc/{}/task", self.pid());
        wait::until("the stop of all threads", || {
            std::fs::read_dir(&threads).unwrap().all(|thread| {
                is_stopped(std::fs::read_to_string(thread.unwrap().path().join("stat")).unwrap())
            })
        });
    }

    pub fn stop(mut self) {
        self.running.signal(Signal::INT);
        self.running.ends_within(Duration::from_secs(20));
    }
}

pub fn tool(program: &str, args: &[&str]) -> String {
    let run = Command::new(program).args(args).output();
    let run = run.unwrap_or_else(|error| panic!("{program}: {error}; `make nbd-packages` installs it"));
    printed(&run, &[program])
}

pub fn python(script: &str, args: &[&str]) -> Command {
    // Debian's module is not visible to a Python that is earlier in the path.
    let mut command = Command::new("/usr/bin/python3");
    command.args(["-c", script]).args(args);
    command
}
