//! `benthic array serve`, over HTTP.

mod oracle;

use super::PROGRAM;
use base64_simd::STANDARD;
use benthic_core::{ObjectId, Store};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::program::Home;
use benthic_testkit::seed;
use futures::executor::block_on;
use oracle::{Case, Item, parse};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

/// A running server, with the key of its first start.
struct Server {
    child: Child,
    address: String,
    login: String,
}

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Server {
    fn start(home: &Home, login: Option<&str>, options: &[&str]) -> Server {
        let args = [&["--json", "serve", "--listen", "127.0.0.1:0", "--sealing-key", "sealing.key"], options];
        let mut child = home.command(&args.concat()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let started: Value = serde_json::from_str(&line).unwrap();
        let address = started["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        let text = |name: &str| started[name].as_str().unwrap_or_default().to_owned();
        let first = format!("{}:{}", text("access_key"), text("secret_key"));
        Server { child, address, login: login.map_or(first, str::to_owned) }
    }

    fn request(&self, method: &str, path: &str, login: Option<&str>, body: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let login = login
            .map(|login| format!("authorization: Basic {}\r\n", STANDARD.encode_to_string(login.as_bytes())));
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{}content-length: {}\r\n\r\n",
            login.unwrap_or_default(),
            body.len()
        );
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses the head may close the connection before it has read the body.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
        let body = answer.split_off(end + 4);
        let head = String::from_utf8(answer).unwrap().to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body }
    }

    fn post(&self, operation: &str, body: &Value) -> Answer {
        let path = format!("/v2/{operation}/");
        self.request("POST", &path, Some(&self.login), body.to_string().as_bytes())
    }

    fn compute(&self, operation: &str, body: &Value) -> BTreeMap<String, Item> {
        let answer = self.post(operation, body);
        assert_eq!(answer.status, 200, "{operation} {body}: {}", String::from_utf8_lossy(&answer.body));
        assert!(answer.head.contains("content-type: application/cbor"), "{}", answer.head);
        parse(&answer.body)
    }

    /// Stops the server with a signal.
    fn stop(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A store with these objects in the pool `files`.
fn home(objects: &[(String, Vec<u8>)]) -> Home {
    let home = Home::new(PROGRAM, &["array"]);
    let store = EmbeddedStore::open(&home.path("benthic-data"), true, Options::default()).unwrap();
    for pool in ["files", "other"] {
        block_on(store.create_pool(pool)).unwrap();
    }
    let pool = block_on(store.open_pool("files")).unwrap();
    for (name, data) in objects {
        block_on(pool.write_full(&ObjectId::new(name).unwrap(), data.clone())).unwrap();
    }
    store.close().unwrap();
    home
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A request for all of an object with six float32.
fn request() -> Value {
    json!({
        "interface_type": "s3", "url": "http://127.0.0.1:9000/files/six", "dtype": "float32", "offset": 0, "size": 24,
        "shape": [2, 3],
    })
}

fn six() -> (String, Vec<u8>) {
    ("six".to_owned(), floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.5]))
}

#[test]
fn random_requests_give_what_a_slow_oracle_gives() {
    let count = if seed::is_long() { 3_000 } else { 400 };
    let cases: Vec<Case> = seed::many(count).map(Case::random).collect();
    let objects: Vec<(String, Vec<u8>)> =
        cases.iter().map(|case| (format!("dir/{}", case.seed), case.object())).collect();
    let home = home(&objects);
    let server = Server::start(&home, None, &["--pushdown", "always"]);
    let login = server.login.clone();
    let check = |server: &Server| {
        for case in &cases {
            for operation in ["count", "sum", "min", "max", "select"] {
                let body = case.request(&format!("http://any/files//dir/{}", case.seed));
                case.check(operation, &server.compute(operation, &body));
            }
        }
    };
    check(&server);
    let metrics = String::from_utf8(server.request("GET", "/metrics", None, b"").body).unwrap();
    assert!(!metrics.contains("pushed_chunks_total 0\n"), "the class did not run: {metrics}");
    assert_eq!(server.stop(), Some(143));
    check(&Server::start(&home, Some(&login), &["--pushdown", "never"]));
}

#[test]
fn integers_stay_exact_and_never_overflow_silently() {
    let numbers = |values: &[i64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let large = (1 << 53) + 1;
    let small = |values: &[i32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let home = home(&[
        ("exact".to_owned(), numbers(&[large, -7, 1, i64::MIN])),
        ("full".to_owned(), small(&[i32::MAX, 1])),
    ]);
    let server = Server::start(&home, None, &[]);
    let request = |object: &str, dtype: &str, missing: Value| {
        let url = format!("http://any/files/{object}");
        json!({ "interface_type": "s3", "url": url, "dtype": dtype, "missing": missing })
    };
    let missing = json!({ "missing_values": [-7, i64::MIN] });
    for (operation, expected) in [("sum", large + 1), ("min", 1), ("max", large)] {
        let result = server.compute(operation, &request("exact", "int64", missing.clone()));
        assert_eq!(result["bytes"], Item::Bytes(expected.to_le_bytes().to_vec()), "{operation}");
        assert_eq!(result["count"], Item::Numbers(vec![2]));
    }
    let answer = server.post("sum", &request("full", "int32", Value::Null));
    assert_eq!(answer.status, 400);
    assert!(String::from_utf8_lossy(&answer.body).contains("does not fit"));
    let result = server.compute("sum", &request("full", "int32", json!({ "valid_max": 5 })));
    assert_eq!(result["bytes"], Item::Bytes(1_i32.to_le_bytes().to_vec()));
    // Nothing is left to take the minimum of.
    for (operation, expected) in [("min", i32::MAX), ("max", i32::MIN), ("sum", 0)] {
        let result = server.compute(operation, &request("full", "int32", json!({ "valid_max": 0 })));
        assert_eq!(result["bytes"], Item::Bytes(expected.to_le_bytes().to_vec()), "{operation}");
        assert_eq!(result["count"], Item::Numbers(vec![0]));
    }
}

#[test]
fn a_missing_value_is_compared_exactly() {
    // netCDF's default fill value, and its neighbours.
    let fill: f64 = 9.969_209_968_386_869e36;
    let bytes = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let home = home(&[
        ("equal".to_owned(), bytes(&[fill, 1.0])),
        ("close".to_owned(), bytes(&[fill.next_up(), fill.next_down()])),
    ]);
    let server = Server::start(&home, None, &[]);
    for (object, count) in [("equal", 1), ("close", 2)] {
        let request = json!({
            "interface_type": "https", "url": format!("http://any/files/{object}"), "dtype": "float64",
            "missing": {"missing_value": fill},
        });
        assert_eq!(server.compute("count", &request)["count"], Item::Numbers(vec![count]), "{object}");
    }
}

/// Changes a field of a valid request.
fn changed(field: &str, value: Value) -> Value {
    let mut request = request();
    request[field] = value;
    request
}

#[test]
fn invalid_requests_get_clear_errors() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    gzip.write_all(&vec![0; 64 << 20]).unwrap();
    let home = home(&[six(), ("bomb".to_owned(), gzip.finish().unwrap())]);
    let server = Server::start(&home, None, &["--pushdown", "always"]);
    let fails = |status: u16, text: &str, body: &Value| {
        let answer = server.post("sum", body);
        let message = String::from_utf8(answer.body).unwrap();
        assert_eq!(answer.status, status, "{body}: {message}");
        assert!(answer.head.contains("content-type: application/json"), "{}", answer.head);
        let error: Value = serde_json::from_str(&message).unwrap();
        assert!(error["error"]["message"].is_string(), "{message}");
        assert!(message.contains(text), "{body}: {message}");
    };
    let huge = u64::MAX;
    for (field, value) in [
        ("interface_type", json!("posix")),
        ("url", json!("files/six")),
        ("url", json!("http://any/files")),
        ("url", json!("http://any/files/%zz")),
        ("dtype", json!("float16")),
        ("dtype", json!(4)),
        ("byte_order", json!("middle")),
        ("order", json!("A")),
        ("offset", json!(-1)),
        ("offset", json!(0.5)),
        ("size", json!(0)),
        ("size", json!(-24)),
        ("size", json!(1e300)),
        ("shape", json!([])),
        ("shape", json!([0])),
        ("shape", json!([2, 4])),
        ("shape", json!([-2, -3])),
        ("shape", json!([huge, huge])),
        ("shape", json!(vec![1_u64 << 40; 30])),
        ("shape", json!(vec![1; 33])),
        ("axis", json!(2)),
        ("axis", json!([1, 0])),
        ("axis", json!([0, 0])),
        ("axis", json!(-1)),
        ("selection", json!([[0, 1, 1]])),
        ("selection", json!([[0, 1, 1], [0, 1, 0]])),
        ("selection", json!([[0, 1, 1], [0, 1]])),
        ("selection", json!([[0, 1, 1], [0, huge, 1]])),
        ("compression", json!({"id": "lzma"})),
        ("compression", json!({"id": "gzip", "level": 1})),
        ("filters", json!([{"id": "delta"}])),
        ("filters", json!([{"id": "shuffle", "element_size": 0}])),
        ("filters", json!([{"id": "shuffle"}])),
        ("filters", json!(vec![json!({"id": "shuffle", "element_size": 4}); 16])),
        ("missing", json!("all")),
        ("missing", json!({"unknown": 1})),
        ("missing", json!({"missing_value": 1e39})),
        ("missing", json!({"missing_values": vec![1; 17]})),
        ("missing", json!({"missing_value": 1, "valid_min": 2})),
        ("missing", json!({"valid_range": [1, 1]})),
        ("option_count_as_bytes", json!("yes")),
        ("unknown", json!(1)),
    ] {
        // The message names the field, or the given text.
        let name = match field {
            "filters" | "shape" => "",
            "option_count_as_bytes" => "option",
            field => field,
        };
        fails(400, name, &changed(field, value));
    }
    for missing in [json!(1.0), json!(-1), json!(1u64 << 32)] {
        let mut request = changed("missing", json!({"missing_value": missing}));
        request["dtype"] = json!("uint32");
        fails(400, "missing", &request);
    }
    // Beyond the end of the object, and of all numbers.
    fails(400, "such a chunk", &changed("offset", json!(4)));
    fails(400, "size", &changed("offset", json!(huge - 23)));
    let mut rest = changed("offset", json!(25));
    rest.as_object_mut().unwrap().remove("size");
    fails(400, "offset", &rest);
    // Objects that decode to something else.
    fails(400, "such a chunk", &changed("compression", json!({"id": "zlib"})));
    let mut bomb = changed("compression", json!({"id": "gzip"}));
    bomb["url"] = json!("http://any/files/bomb");
    bomb["size"] = json!(60_000);
    fails(400, "such a chunk", &bomb);
    fails(404, "NoSuchKey", &changed("url", json!("http://any/files/none")));
    fails(404, "NoSuchKey", &changed("url", json!("http://any/none/six")));
    fails(403, "Access Denied", &changed("url", json!("http://any/s3/six")));
    // A result of 64 MiB.
    let mut large = json!({
        "interface_type": "s3", "url": "http://any/files/bomb", "dtype": "float32", "size": 60_000,
        "shape": [16 << 20], "compression": {"id": "gzip"},
    });
    assert_eq!(server.post("select", &large).status, 400);
    large["selection"] = json!([[0, 0, 1]]);
    assert_eq!(server.compute("select", &large)["shape"], Item::Numbers(vec![0]));
    for body in [&b"{"[..], b"[]", b"", b"\"\\", b"{\"offset\": 00, \"a\": -}", &[b'['; 500_000]] {
        assert_eq!(server.request("POST", "/v2/sum", Some(&server.login), body).status, 400);
    }
    assert_eq!(server.request("POST", "/v2/sum", Some(&server.login), &vec![b' '; 2 << 20]).status, 400);
    assert_eq!(server.post("mean", &request()).status, 404);
    assert_eq!(server.request("POST", "/v1/sum", Some(&server.login), b"{}").status, 404);
    assert_eq!(server.request("PUT", "/v2/sum", Some(&server.login), b"{}").status, 405);
    // The server still answers.
    let sum = server.compute("sum", &request());
    assert_eq!(sum["bytes"], Item::Bytes(floats(&[21.5])));
    assert_eq!(server.request("GET", "/-/health", None, b"").body, b"ok\n");
}

#[test]
fn only_keys_of_permitted_accounts_may_read() {
    let home = home(&[six()]);
    let server = Server::start(&home, None, &[]);
    let login = server.login.clone();
    let status = |server: &Server, login: Option<&str>| {
        let answer = server.request("POST", "/v2/sum/", login, request().to_string().as_bytes());
        assert_eq!(answer.status == 401, answer.head.contains("www-authenticate: basic"), "{}", answer.head);
        answer.status
    };
    assert_eq!(status(&server, Some(&login)), 200);
    let (key, _) = login.split_once(':').unwrap();
    for wrong in [None, Some(""), Some("x"), Some(key), Some("a:b"), Some(&*format!("{key}:wrong"))] {
        assert_eq!(status(&server, wrong), 401, "{wrong:?}");
    }
    drop(server);
    for (allow, expected) in [("main=files", 200), ("main=other", 403), ("another", 403)] {
        let server = Server::start(&home, Some(&login), &["--allow", allow]);
        assert_eq!(status(&server, Some(&login)), expected, "{allow}");
    }
    let message = home.fails(2, &["serve", "--listen", "0.0.0.0:0"]);
    assert!(message.contains("--tls-cert"), "{message}");
}
