//! The metrics of the NBD server.

use crate::ram::Ram;
use crate::support::{Client, NAME, Server, export};
use benthic_block::nbd::Options;
use benthic_block::{Image, Limits};
use benthic_core::ErrorKind;
use benthic_testkit::wait;
use std::sync::Arc;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// The value of a sample, which must exist.
fn sample(server: &Server, sample: &str) -> f64 {
    let text = server.metrics.text();
    let value = text.lines().find_map(|line| line.strip_prefix(&format!("{sample} ")));
    value.unwrap_or_else(|| panic!("{sample} is not in:\n{text}")).parse().unwrap()
}

fn of_image(name: &str, kind: &str) -> String {
    format!("benthic_image_{name}{{image=\"pool/image\",kind=\"{kind}\"}}")
}

fn wait_for(server: &Server, name: &str, value: f64) {
    wait::until(&format!("{name} to be {value}"), || sample(server, name) == value);
}

#[test]
fn requests_are_counted_by_kind() {
    let ram = Arc::new(Ram::new(MIB));
    let server = Server::start(Arc::clone(&ram) as Arc<dyn Image>);
    let mut client = Client::go(&server, false);
    for cookie in 0..3 {
        client.write(0, cookie, 0, &[1; 4096]);
        client.simple();
    }
    client.request(0, 0, 1, 0, 512);
    client.simple();
    client.data(512);
    client.request(3, 0, 1, 0, 0);
    client.request(4, 0, 2, 0, 1 << 20);
    for _ in 0..2 {
        assert_eq!(client.simple().0, 0);
    }
    *ram.error.lock() = Some(ErrorKind::Corrupt);
    client.write(0, 1, 0, &[1; 4096]);
    client.simple();
    // Refused, so it has no latency.
    client.request(0, 0, 1, MIB, 512);
    client.simple();
    for (kind, count, bytes, errors) in
        [("write", 4.0, 12_288.0, 1.0), ("read", 1.0, 512.0, 1.0), ("zero", 1.0, MIB as f64, 0.0)]
    {
        assert_eq!(sample(&server, &of_image("request_seconds_count", kind)), count);
        assert_eq!(sample(&server, &of_image("bytes_total", kind)), bytes);
        assert_eq!(sample(&server, &of_image("request_errors_total", kind)), errors);
        let all = format!(
            "benthic_image_request_seconds_bucket{{image=\"pool/image\",kind=\"{kind}\",le=\"+Inf\"}}"
        );
        assert_eq!(sample(&server, &all), count);
    }
    assert_eq!(sample(&server, &of_image("request_seconds_count", "flush")), 1.0);
    assert!(sample(&server, &of_image("request_seconds_sum", "write")) > 0.0);
    server.stop();
}

#[test]
fn requests_in_flight_and_clients_are_shown() {
    let ram = Arc::new(Ram::holding(MIB));
    let options = Options { slow_request: Duration::from_millis(10), ..Options::default() };
    let server = Server::start_with(vec![export(NAME, Arc::clone(&ram) as Arc<dyn Image>)], options);
    let (clients, in_flight) = (
        "benthic_image_clients{image=\"pool/image\"}",
        "benthic_image_requests_in_flight{image=\"pool/image\"}",
    );
    assert_eq!(sample(&server, clients), 0.0);
    let mut client = Client::go(&server, false);
    let other = Client::go(&server, false);
    for cookie in 0..5 {
        client.write(0, cookie, 0, &[1; 512]);
    }
    wait_for(&server, in_flight, 5.0);
    wait_for(&server, clients, 2.0);
    wait::pause(Duration::from_millis(20));
    ram.writes.add_permits(10);
    for _ in 0..5 {
        client.simple();
    }
    wait_for(&server, in_flight, 0.0);
    assert_eq!(sample(&server, &of_image("slow_requests_total", "write")), 5.0);
    assert_eq!(sample(&server, &of_image("slow_requests_total", "read")), 0.0);
    drop((client, other));
    wait_for(&server, clients, 0.0);
    server.stop();
}

#[test]
fn throttled_requests_are_measured() {
    let limits = Limits { read_ops_per_s: Some(20), ..Limits::default() };
    let options = Options { client_limits: limits, ..Options::default() };
    let server = Server::start_with(vec![export(NAME, Arc::new(Ram::new(MIB)))], options);
    let mut client = Client::go(&server, false);
    for cookie in 0..40 {
        client.request(0, 0, cookie, 0, 1);
    }
    for _ in 0..40 {
        client.simple();
        client.data(1);
    }
    // 20 at once; a slow machine may let some more pass.
    assert!(sample(&server, &of_image("throttled_requests_total", "read")) > 0.0);
    assert!(sample(&server, &of_image("throttled_seconds_total", "read")) > 0.5);
    assert_eq!(sample(&server, &of_image("throttled_requests_total", "write")), 0.0);
    // Their latency does not include the wait.
    assert_eq!(sample(&server, &of_image("slow_requests_total", "read")), 0.0);
    server.stop();
}

#[test]
fn names_are_escaped() {
    let server =
        Server::start_with(vec![export("pool/a\"b\\c", Arc::new(Ram::new(MIB)))], Options::default());
    assert_eq!(sample(&server, r#"benthic_image_clients{image="pool/a\"b\\c"}"#), 0.0);
    for line in server.metrics.text().lines() {
        let is_help = line.starts_with("# HELP benthic_image_") || line.starts_with("# TYPE benthic_image_");
        assert!(is_help || line.starts_with("benthic_image_"), "{line}");
    }
    server.stop();
}
