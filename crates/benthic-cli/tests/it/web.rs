//! A running console, and requests to it.

use crate::support::Home;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// The arguments of a console on a free port, which prints its URL as JSON.
pub const SERVE: [&str; 5] = ["--json", "console", "serve", "--listen", "127.0.0.1:0"];

pub struct Console {
    child: Child,
    pub url: String,
    pub token: String,
}

/// The response to a request.
pub struct Answer {
    pub status: u16,
    /// The status line and the headers.
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", self.head, String::from_utf8_lossy(&self.body)))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find_map(|line| line.split_once(": ").filter(|(key, _)| *key == name));
        line.map(|(_, value)| value)
    }
}

impl Console {
    /// Starts a console on a free port.
    #[track_caller]
    pub fn start(home: &Home, args: &[&str]) -> Console {
        Console::run(home.command(&[&SERVE[..], args].concat()))
    }

    /// Runs a command that begins with [`SERVE`].
    #[track_caller]
    pub fn run(mut command: Command) -> Console {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let printed: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        let text = |key: &str| printed[key].as_str().unwrap().to_owned();
        Console { child, url: text("url"), token: text("token") }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Address and port.
    pub fn address(&self) -> &str {
        self.url.strip_prefix("http://").unwrap().strip_suffix('/').unwrap()
    }

    pub fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address()).unwrap()
    }

    /// Sends a request with exactly these headers.
    #[track_caller]
    pub fn raw(&self, line: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        let mut request = format!("{line} HTTP/1.1\r\nconnection: close\r\n");
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let request = [request.as_bytes(), b"\r\n", body].concat();
        let mut stream = self.connect();
        // The server may refuse the headers before it has read the body.
        let _ = stream.write_all(&request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap_or(answer.len());
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head, body: answer.get(end + 4..).unwrap_or_default().to_vec() }
    }

    /// Sends a request with the token.
    #[track_caller]
    pub fn ask(&self, line: &str, body: &[u8]) -> Answer {
        let (bearer, len) = (format!("Bearer {}", self.token), body.len().to_string());
        let headers = [
            ("host", "localhost"),
            ("authorization", bearer.as_str()),
            ("content-type", "application/json"),
            ("content-length", len.as_str()),
        ];
        self.raw(line, &headers, body)
    }

    /// Gets the JSON of an address, which must succeed.
    #[track_caller]
    pub fn get(&self, path: &str) -> Value {
        let answer = self.ask(&format!("GET {path}"), b"");
        assert_eq!(answer.status, 200, "{path}: {}", String::from_utf8_lossy(&answer.body));
        answer.json()
    }

    /// Sends a request that must fail, and returns the kind of its error.
    #[track_caller]
    pub fn refused(&self, status: u16, line: &str, body: &[u8]) -> String {
        let answer = self.ask(line, body);
        assert_eq!(answer.status, status, "{line}: {}", String::from_utf8_lossy(&answer.body));
        let error = answer.json()["error"].clone();
        assert!(!error["message"].as_str().unwrap().is_empty(), "{line}");
        error["kind"].as_str().unwrap().to_owned()
    }

    /// Stops the console and returns its exit status.
    pub fn stop(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The text as part of a URL.
pub fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
