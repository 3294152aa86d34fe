//! Tests of the lines that wait for their delivery.

use super::super::bucket_logging::{KeyFormat, LogTarget};
use super::super::metrics::Metrics;
use super::{AccessLogs, GROUP_BYTES, Group, OBJECT_BYTES, WAITING_BYTES_MAX, key};
use benthic_core::{Clock, Environment};
use s3s::s3_error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

#[derive(Default)]
struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn unix_ns(&self) -> u64 {
        self.0.load(Relaxed) * 1_000_000
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Relaxed))
    }
}

fn logs() -> (Arc<TestClock>, Arc<Metrics>, AccessLogs) {
    let (clock, metrics) = (Arc::new(TestClock::default()), Arc::new(Metrics::default()));
    let environment = Environment { clock: Arc::clone(&clock) as Arc<dyn Clock>, ..Environment::default() };
    let logs = AccessLogs::new(environment, Arc::clone(&metrics));
    (clock, metrics, logs)
}

fn target(format: KeyFormat) -> LogTarget {
    LogTarget { bucket: "logs".to_owned(), prefix: "p/".to_owned(), format }
}

fn group(source: &str) -> Group {
    Group {
        source: source.to_owned(),
        owner: "main".to_owned(),
        target: target(KeyFormat::Simple),
        day_ms: None,
    }
}

#[test]
fn keys_have_the_forms_of_aws() {
    let key = |format| key((&target(format), "main", "photos"), "us-east-1", 1_549_411_238_000, "AB");
    assert_eq!(key(KeyFormat::Simple), "p/2019-02-06-00-00-38-AB");
    let partitioned = "p/main/us-east-1/photos/2019/02/06/2019-02-06-00-00-38-AB";
    assert_eq!(key(KeyFormat::ByDelivery), partitioned);
    assert_eq!(key(KeyFormat::ByEvent), partitioned);
}

#[test]
fn lines_wait_for_their_time_or_their_size() {
    let (clock, _, logs) = logs();
    let every = Duration::from_secs(5);
    logs.add(group("a"), "one\n");
    clock.0.store(4_999, Relaxed);
    logs.add(group("a"), "two\n");
    assert!(logs.take(every).is_empty());
    logs.add(group("b"), &"x".repeat(OBJECT_BYTES));
    let full = logs.take(every);
    assert_eq!(full.iter().map(|(group, _)| group.source.as_str()).collect::<Vec<_>>(), ["b"]);
    clock.0.store(5_000, Relaxed);
    let due = logs.take(every);
    assert_eq!(due.iter().map(|(_, lines)| lines.text.as_str()).collect::<Vec<_>>(), ["one\ntwo\n"]);
}

#[test]
fn memory_is_bounded_and_lost_lines_are_counted() {
    let (_, metrics, logs) = logs();
    let line = format!("{}\n", "x".repeat(99));
    let many = line.repeat(10_000);
    for number in 0..100 {
        logs.add(group(&number.to_string()), &many);
    }
    let bytes = logs.waiting.lock().bytes;
    assert!(bytes <= WAITING_BYTES_MAX && bytes > WAITING_BYTES_MAX - many.len() - GROUP_BYTES);
    let taken = logs.take(Duration::ZERO);
    let kept = taken.len() as u64;
    assert_eq!(metrics.dropped_log_lines.load(Relaxed), (100 - kept) * 10_000);
    // Lines of a running delivery still take memory.
    assert_eq!(logs.waiting.lock().bytes, bytes);
    for (group, lines) in taken {
        logs.settle(group, lines, Ok(()));
    }
    assert_eq!(logs.waiting.lock().bytes, 0);
    assert_eq!(metrics.log_objects.load(Relaxed), kept);
}

#[test]
fn lines_wait_again_if_the_store_fails_and_are_lost_if_they_are_refused() {
    let (_, metrics, logs) = logs();
    logs.add(group("a"), "one\n");
    let (first, lines) = logs.take(Duration::ZERO).remove(0);
    logs.add(group("a"), "two\n");
    logs.settle(first, lines, Err(s3_error!(ServiceUnavailable)));
    let (again, lines) = logs.take(Duration::ZERO).remove(0);
    assert_eq!(lines.text, "one\ntwo\n");
    logs.settle(again, lines, Err(s3_error!(AccessDenied)));
    assert_eq!(logs.waiting.lock().bytes, 0);
    assert_eq!(metrics.dropped_log_lines.load(Relaxed), 2);
}
