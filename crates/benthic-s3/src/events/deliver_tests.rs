use super::{Connected, Senders};
use crate::events::broker::{IDLE_MS, KEPT_MAX};
use crate::events::webhook::Webhook;
use crate::identity::EventTarget;

fn target(url: &str) -> EventTarget {
    let record = serde_json::json!({ "form": 1, "created_ms": 1, "url": url, "token": null, "ca": null });
    serde_json::from_value(record).unwrap()
}

fn keep(senders: &Senders, name: &str, target: &EventTarget, now_ms: u64) {
    let sender = Webhook::new(&target.url, None, None).unwrap().sender();
    senders.keep(Connected { name: name.to_owned(), target: target.clone(), sender }, now_ms);
}

#[test]
fn idle_connections_of_targets_have_limits() {
    let senders = Senders::default();
    let (old, new) = (target("http://old/"), target("http://new/"));
    for (name, now_ms) in [("main/a", 0), ("main/b", 0), ("main/b", 1)] {
        keep(&senders, name, &old, now_ms);
    }
    // No delivery uses `a` any more, for example because the target was removed.
    senders.forget_idle(IDLE_MS);
    assert!(senders.take("main/a", &old).is_none());
    assert!(senders.take("main/b", &old).is_some());
    // The target has changed, so its other connection ends.
    assert!(senders.take("main/b", &new).is_none());
    assert!(senders.take("main/b", &old).is_none());
    for number in 0..=KEPT_MAX {
        keep(&senders, &format!("main/{number}"), &new, 0);
    }
    assert!(senders.take(&format!("main/{KEPT_MAX}"), &new).is_none());
    assert!(senders.take("main/0", &new).is_some());
    keep(&senders, "main/0", &new, 0);
    assert!(senders.take("main/0", &new).is_some());
}
