//! Exports of one server share it fairly.

use crate::ram::Ram;
use crate::support::{Client, Server, export};
use benthic_block::Image;
use benthic_block::nbd::Options;
use benthic_testkit::wait;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::sync::Semaphore;

const MIB: u64 = 1 << 20;

/// Waits until a number no longer changes.
fn settled(number: &AtomicUsize) -> usize {
    let mut last = usize::MAX;
    for _ in 0..100 {
        wait::pause(Duration::from_millis(100));
        let now = number.load(Ordering::SeqCst);
        if now == last && now > 0 {
            return now;
        }
        last = now;
    }
    panic!("the number changes all the time");
}

#[test]
fn a_request_does_not_queue_behind_all_of_another_export() {
    // Both images are in one store, which runs their writes in the order of their arrival.
    let (writes, arrived_writes) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let image = || {
        let (writes, started_writes) = (Arc::clone(&writes), Arc::clone(&arrived_writes));
        Arc::new(Ram { writes, started_writes, ..Ram::new(MIB) })
    };
    let exports = vec![export("busy", image()), export("other", image())];
    let server = Server::start_with(exports, Options::default());
    let mut busy: Vec<_> = (0..20).map(|_| Client::go_to(&server, "busy")).collect();
    for client in &mut busy {
        for cookie in 0..120 {
            client.write(0, cookie, 0, &[1; 512]);
        }
    }
    // 2,400 requests wait, but few of them in the store.
    let arrived = settled(&arrived_writes);
    assert!(arrived <= 200, "{arrived}");
    let mut other = Client::go_to(&server, "other");
    other.write(0, 1, 0, &[2; 512]);
    wait::until("the write of the other client", || arrived_writes.load(Ordering::SeqCst) != arrived);
    // The store is first come, first served.
    writes.add_permits(arrived + 1);
    assert_eq!(other.simple(), (0, 1));
    writes.add_permits(10_000);
    for client in &mut busy {
        for _ in 0..120 {
            assert_eq!(client.simple().0, 0);
        }
    }
    server.stop();
}

/// The other export needs memory for 32 MiB, while all the writes of the first one hang.
#[test]
fn an_export_that_hangs_leaves_memory_to_others() {
    let hanging = Arc::new(Ram::holding(64 * MIB));
    let exports = vec![
        export("hanging", Arc::clone(&hanging) as Arc<dyn Image>),
        export("other", Arc::new(Ram::new(64 * MIB))),
    ];
    let server = Server::start_with(exports, Options::default());
    let data = vec![1; 16 << 20];
    let writers: Vec<_> = (0..10)
        .map(|_| {
            let mut client = Client::go_to(&server, "hanging");
            let data = data.clone();
            // Some of them cannot send all their data until others end.
            std::thread::spawn(move || {
                (0..4).for_each(|cookie| client.write(0, cookie, 0, &data));
                (0..4).for_each(|_| assert_eq!(client.simple().0, 0));
            })
        })
        .collect();
    let started = settled(&hanging.started_writes);
    assert!(started < 32, "{started} writes of 16 MiB take all the memory");
    let mut other = Client::go_to(&server, "other");
    for cookie in 0..4 {
        other.write(0, cookie, 0, &vec![2; 32 << 20]);
        assert_eq!(other.simple(), (0, cookie));
    }
    hanging.writes.add_permits(1_000);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    server.stop();
}
