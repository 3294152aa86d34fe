//! The next wire version of a library, installed beside the version in use.

use crate::cluster::Cluster;
use benthic_core::{Stopwatch, SystemClock};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

#[test]
fn a_new_version_is_installed_while_calls_to_the_old_one_continue() {
    let object = "upgraded";
    let mut cluster = Cluster::connect();
    cluster.put(object, b"data", 1);
    let boots = cluster.boots();
    let (calls, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for _ in 0..2 {
            let (calls, stop) = (&calls, &stop);
            scope.spawn(move || {
                let mut client = Cluster::connect();
                while !stop.load(Ordering::SeqCst) {
                    let answer = client.exec(object, "calls_1", "calls.look", b"read 0 4");
                    assert_eq!(answer.unwrap(), b"data\n");
                    calls.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let stopped = Stopped(&stop);
        wait_for_calls(&calls, 100);
        cluster.install("calls_2");
        assert_eq!(cluster.exec(object, "calls_2", "calls.look", b"").unwrap(), b"version 2");
        wait_for_calls(&calls, 100);
        assert_eq!(cluster.exec(object, "calls_2", "calls.look", b"").unwrap(), b"version 2");
        drop(stopped);
    });
    assert_eq!(cluster.boots(), boots, "no OSD was started again");
}

/// Stops the callers when dropped, also if the test fails.
struct Stopped<'a>(&'a AtomicBool);

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits until `more` further calls were answered.
fn wait_for_calls(calls: &AtomicUsize, more: usize) {
    let before = calls.load(Ordering::SeqCst);
    let waited = Stopwatch::start(&SystemClock);
    while calls.load(Ordering::SeqCst) < before + more {
        assert!(waited.elapsed().as_secs() < 60, "the calls stopped");
        thread::park_timeout(std::time::Duration::from_millis(5));
    }
}
