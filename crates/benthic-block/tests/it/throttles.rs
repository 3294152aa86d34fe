//! Limits of requests, tested with clients that send raw bytes. No test depends on exact times: a
//! limit is either so low that nothing passes within a test, or the test takes at least its time.

use crate::ram::Ram;
use crate::support::{Client, NAME, Server, export, request_bytes};
use benthic_block::nbd::Options;
use benthic_block::{CreateOptions, Geometry, Image, Limits, OpenMode};
use benthic_core::{Stopwatch, SystemClock};
use benthic_testkit::wait;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const MIB: u64 = 1 << 20;
const READ: u16 = 0;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;

/// A server whose clients have limits, and its image.
fn limited(limits: Limits) -> (Server, Arc<Ram>) {
    let ram = Arc::new(Ram::new(64 * MIB));
    let image = Arc::clone(&ram) as Arc<dyn Image>;
    let options = Options { client_limits: limits, ..Options::default() };
    (Server::start_with(vec![export(NAME, image)], options), ram)
}

/// So low that a second request does not pass within a test.
fn one_byte_per_s() -> Limits {
    Limits { read_bytes_per_s: Some(1), write_bytes_per_s: Some(1), ..Limits::default() }
}

/// Reads replies to requests without data, and returns their cookies in order.
fn cookies(client: &mut Client, count: u64) -> Vec<u64> {
    let mut cookies: Vec<u64> = (0..count)
        .map(|_| {
            let (errno, cookie) = client.simple();
            assert_eq!(errno, 0);
            cookie
        })
        .collect();
    cookies.sort_unstable();
    cookies
}

#[test]
fn throttled_requests_do_not_delay_others_of_their_connection() {
    let (server, ram) = limited(one_byte_per_s());
    let mut client = Client::go(&server, false);
    client.request(READ, 0, 0, 0, 1 << 20);
    assert_eq!(client.simple(), (0, 0));
    client.data(1 << 20);
    for cookie in 1..50 {
        client.request(READ, 0, cookie, 0, 1 << 20);
    }
    // The first write pays for nothing before it; the second waits.
    client.write(0, 100, 0, &[1; 4096]);
    client.write(0, 101, 0, &[2; 4096]);
    client.request(FLUSH, 0, 102, 0, 0);
    client.request(TRIM, 0, 103, MIB, 1 << 20);
    assert_eq!(cookies(&mut client, 3), [100, 102, 103]);
    assert_eq!(ram.started_writes.load(Ordering::SeqCst), 2);
    // A disconnect is noticed too, and lets everything run.
    client.request(DISCONNECT, 0, 0, 0, 0);
    let mut left = 50;
    while left > 0 {
        let (errno, cookie) = client.simple();
        assert_eq!(errno, 0);
        if cookie < 100 {
            client.data(1 << 20);
        }
        left -= 1;
    }
    client.assert_closed();
    assert_eq!(ram.started_writes.load(Ordering::SeqCst), 3);
    server.stop();
}

#[test]
fn a_stop_runs_throttled_requests_at_once() {
    let limits = Limits { write_ops_per_s: Some(1), ..Limits::default() };
    let (mut server, ram) = limited(limits);
    let mut client = Client::go(&server, false);
    for cookie in 0..100 {
        client.write(0, cookie, cookie * 512, &[cookie as u8 + 1; 512]);
    }
    // All are accepted before the flush.
    client.request(FLUSH, 0, 100, 0, 0);
    let start = Stopwatch::start(&SystemClock);
    let mut replies = vec![client.simple()];
    while !replies.contains(&(0, 100)) {
        replies.push(client.simple());
    }
    server.request_stop();
    while replies.len() < 101 {
        replies.push(client.simple());
    }
    client.assert_closed();
    server.stop();
    assert!(start.elapsed() < Duration::from_secs(60));
    for number in 0..100 {
        let data = futures::executor::block_on(ram.read(number * 512, 1)).unwrap();
        assert_eq!(data[..], [number as u8 + 1]);
    }
}

#[test]
fn the_requests_of_a_lost_client_run_at_once() {
    let (server, ram) = limited(one_byte_per_s());
    let mut client = Client::go(&server, false);
    for cookie in 0..10 {
        client.write(0, cookie, 0, &[1; 512]);
    }
    assert_eq!(client.simple(), (0, 0));
    drop(client);
    wait::until("ten writes", || ram.started_writes.load(Ordering::SeqCst) >= 10);
    server.stop();
}

/// Its data stay in the socket, so that the limit on parked data holds.
#[test]
fn a_large_throttled_write_blocks_only_its_connection() {
    let (server, ram) = limited(one_byte_per_s());
    let mut clients: Vec<_> = (0..20)
        .map(|_| {
            let mut client = Client::go(&server, false);
            client.write(0, 1, 0, &[1; 512]);
            assert_eq!(client.simple(), (0, 1));
            client.0.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
            client.0.write_all(&request_bytes(1, 0, 2, 0, 32 << 20)).unwrap();
            while client.0.write_all(&[2; 1 << 16]).is_ok() {}
            client
        })
        .collect();
    let mut other = Client::go(&server, false);
    other.request(READ, 0, 3, 0, 32 << 20);
    assert_eq!(other.simple(), (0, 3));
    other.data(32 << 20);
    assert_eq!(ram.started_writes.load(Ordering::SeqCst), 20);
    clients.truncate(1);
    // The server has not accepted the write, so a stop does not wait for it.
    server.stop();
    assert_eq!(ram.started_writes.load(Ordering::SeqCst), 20);
}

#[test]
fn a_rate_holds_after_the_burst() {
    let limits = Limits { read_ops_per_s: Some(40), ..Limits::default() };
    let (server, _) = limited(limits);
    let mut client = Client::go(&server, false);
    let start = Stopwatch::start(&SystemClock);
    for cookie in 0..100 {
        client.request(READ, 0, cookie, 0, 1);
    }
    for _ in 0..100 {
        client.simple();
        client.data(1);
    }
    // 40 at once, and 60 at 40 a second.
    assert!(start.elapsed() >= Duration::from_millis(1_400), "{:?}", start.elapsed());
    // Another connection has a limit of its own.
    let mut other = Client::go(&server, false);
    let start = Stopwatch::start(&SystemClock);
    for cookie in 0..40 {
        other.request(READ, 0, cookie, 0, 1);
        other.simple();
        other.data(1);
    }
    assert!(start.elapsed() < Duration::from_secs(60));
    server.stop();
}

#[test]
fn limits_of_an_image_apply_while_it_is_served() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let images = runtime.block_on(crate::in_memory());
    let opened = ["i", "j"].map(|name| {
        runtime.block_on(async {
            let options = CreateOptions::new(MIB, Geometry::default());
            images.create(name, options).await.unwrap();
            images.open(name, None, OpenMode::Write).await.unwrap()
        })
    });
    let set = |limits| runtime.block_on(images.set_limits("i", limits)).unwrap();
    set(one_byte_per_s());
    let exports = vec![export(NAME, Arc::clone(&opened[0])), export("other", Arc::clone(&opened[1]))];
    let server = Server::start_with(exports, Options::default());
    // All clients of the export share its limits.
    let mut clients = [Client::go(&server, false), Client::go(&server, false)];
    clients[0].write(0, 1, 0, &[1; 4096]);
    assert_eq!(clients[0].simple(), (0, 1));
    for client in &mut clients {
        client.write(0, 2, 0, &[2; 4096]);
        client.request(FLUSH, 0, 3, 0, 0);
        assert_eq!(client.simple(), (0, 3));
    }
    let mut other = Client::go_to(&server, "other");
    for cookie in 0..10 {
        other.write(0, cookie, 0, &[3; 4096]);
        assert_eq!(other.simple(), (0, cookie));
    }
    set(Limits::default());
    for client in &mut clients {
        assert_eq!(client.simple(), (0, 2));
        client.write(0, 4, 0, &[4; 4096]);
        assert_eq!(client.simple(), (0, 4));
    }
    // Another image gets the name; its limits are not those of the export.
    runtime.block_on(async {
        images.rename("i", "k").await.unwrap();
        let options = CreateOptions::new(MIB, Geometry::default());
        images.create("i", options).await.unwrap();
    });
    set(one_byte_per_s());
    wait::pause(Duration::from_millis(2_500));
    let [client, _] = &mut clients;
    for cookie in 5..8 {
        client.write(0, cookie, 0, &[5; 4096]);
        assert_eq!(client.simple(), (0, cookie));
    }
    server.stop();
    for image in opened {
        runtime.block_on(image.close()).unwrap();
    }
}
