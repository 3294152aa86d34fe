use super::{ENTRIES_MAX, MESSAGE_BYTES_MAX, RecentFailures};
use benthic_core::CallFailure;

fn failure(unix_ms: u64, client: &str, message: &str) -> CallFailure {
    CallFailure {
        unix_ms,
        class: "lock".to_owned(),
        version: None,
        method: "acquire".to_owned(),
        client: client.to_owned(),
        kind: "busy".to_owned(),
        message: message.to_owned(),
        times: 0,
    }
}

#[test]
fn equal_failures_are_one_entry_with_the_latest_time_and_client() {
    let recent = RecentFailures::default();
    recent.add(failure(1, "client.1", "held"));
    recent.add(failure(2, "client.2", "other"));
    recent.add(failure(3, "client.3", "held"));
    let entries = recent.read();
    let rows: Vec<_> = entries.iter().map(|entry| (entry.unix_ms, &entry.client[..], entry.times)).collect();
    assert_eq!(rows, [(2, "client.2", 1), (3, "client.3", 2)]);
}

#[test]
fn entries_and_messages_have_a_limit() {
    let recent = RecentFailures::default();
    for number in 0..2 * ENTRIES_MAX as u64 {
        recent.add(failure(number, "client.1", &format!("{number}{}", "é".repeat(MESSAGE_BYTES_MAX))));
    }
    let entries = recent.read();
    assert_eq!(entries.len(), ENTRIES_MAX);
    assert_eq!(entries[0].unix_ms, ENTRIES_MAX as u64, "the oldest are dropped");
    assert!(entries.iter().all(|entry| entry.message.len() <= MESSAGE_BYTES_MAX));
}
