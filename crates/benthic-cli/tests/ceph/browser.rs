//! A headless Chromium that a test drives through a pipe, with the Chrome DevTools Protocol.

use crate::support::Home;
use base64_simd::STANDARD;
use benthic_testkit::wait;
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Time limit for an answer of the browser.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

pub struct Browser {
    child: Child,
    requests: ChildStdin,
    answers: Receiver<Value>,
    session: String,
    id: u64,
    /// Errors and dialogs of the pages.
    pub complaints: Vec<String>,
}

impl Browser {
    pub fn start(home: &Home) -> Browser {
        // The browser reads requests from descriptor 3 and writes answers to descriptor 4.
        let script = "exec chromium \"$@\" 3<&0 4>&1 </dev/null >/dev/null";
        let profile = format!("--user-data-dir={}", home.path("driven").display());
        let mut child = Command::new("sh")
            .args([
                "-c",
                script,
                "sh",
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
            ])
            .args(["--no-first-run", "--remote-debugging-pipe", &profile, "about:blank"])
            .env("HOME", home.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let requests = child.stdin.take().unwrap();
        let pipe = BufReader::new(child.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for message in pipe.split(0).map_while(Result::ok) {
                if sender.send(serde_json::from_slice(&message).unwrap()).is_err() {
                    return;
                }
            }
        });
        let (session, complaints) = (String::new(), Vec::new());
        let mut browser = Browser { child, requests, answers, session, id: 0, complaints };
        let target = browser.call("Target.createTarget", json!({ "url": "about:blank" }));
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    #[track_caller]
    fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        answer.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// Sends a request. Returns the result, or the error of the browser.
    #[track_caller]
    fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.id += 1;
        let mut request = json!({ "id": self.id, "method": method, "params": params });
        if !self.session.is_empty() {
            request["sessionId"] = json!(self.session);
        }
        self.requests.write_all(format!("{request}\0").as_bytes()).unwrap();
        loop {
            let message = self.answers.recv_timeout(ANSWER_LIMIT).expect("an answer of the browser");
            if message["id"] == self.id {
                let error = &message["error"];
                return if error.is_null() { Ok(message["result"].clone()) } else { Err(error.clone()) };
            }
            let is_complaint = match message["method"].as_str() {
                Some("Runtime.exceptionThrown" | "Page.javascriptDialogOpening") => true,
                // A refused request is an entry, too, and tests make some on purpose.
                Some("Log.entryAdded") => message["params"]["entry"]["source"] == "security",
                _ => false,
            };
            if is_complaint {
                self.complaints.push(message["params"].to_string());
            }
        }
    }

    /// The value of an expression in the page.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let result = self.call("Runtime.evaluate", params);
        assert!(result["exceptionDetails"].is_null(), "{expression}: {}", result["exceptionDetails"]);
        result["result"]["value"].clone()
    }

    /// Waits until an expression is true. While a page loads, it may fail, or the page may go away.
    #[track_caller]
    pub fn wait_until(&mut self, expression: &str) {
        let expression =
            format!("(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()");
        let params = json!({ "expression": expression, "returnByValue": true });
        wait::until(&expression, || {
            let answer = self.ask("Runtime.evaluate", params.clone());
            answer.is_ok_and(|answer| answer["result"]["value"] == true)
        });
    }

    /// Opens a page and waits until an expression is true in it.
    #[track_caller]
    pub fn open(&mut self, url: &str, until: &str) {
        self.call("Page.navigate", json!({ "url": url }));
        self.wait_until(&format!("document.readyState === 'complete' && ({until})"));
    }

    pub fn resize(&mut self, width: u32, height: u32, is_dark: bool) {
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = if is_dark { "dark" } else { "light" };
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", features);
    }

    /// Presses a key, such as Tab.
    pub fn press(&mut self, key: &str, code: u32) {
        for kind in ["rawKeyDown", "keyUp"] {
            let event = json!({ "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", event);
        }
    }

    /// Types a text into the focused input.
    pub fn insert(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    pub fn picture(&mut self, path: &Path) {
        let picture =
            self.call("Page.captureScreenshot", json!({ "format": "png", "captureBeyondViewport": true }));
        fs::write(path, STANDARD.decode_to_vec(picture["data"].as_str().unwrap()).unwrap()).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
