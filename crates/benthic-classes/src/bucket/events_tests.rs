use super::codec::Id;
use super::keys;
use super::state::{Body, Event, Queue};
use super::wire::{Change, Condition, FailedEvent, Init, Mode, NewEvent, Put, Settle, Times, call};
use benthic_core::codec::Wire;
use benthic_core::{ErrorKind, Fetch, ObjectId, Pool, Result, Store};
use benthic_embedded::{MemStore, Options};
use bytes::Bytes;
use futures::executor::block_on;
use std::sync::Arc;

const QUEUE: &str = "target/ada/web";

struct Shard {
    pool: Arc<dyn Pool>,
    object: ObjectId,
}

impl Shard {
    fn new() -> Shard {
        let store = MemStore::new(Options::default().with_classes(crate::registry()));
        block_on(store.create_pool("p")).unwrap();
        let shard =
            Shard { pool: block_on(store.open_pool("p")).unwrap(), object: ObjectId::new("o").unwrap() };
        shard.call("init", &Init { bucket: Id([1; 16]), shard: 0 }).unwrap();
        shard
    }

    fn call(&self, method: &str, input: &impl Wire) -> Result<Bytes> {
        block_on(self.pool.exec(&self.object, call(method, input)))
    }

    /// Writes an object with one event.
    fn put(&self, number: u8, detail_bytes: usize) {
        let event = NewEvent {
            change: Change::Created,
            queue: QUEUE.to_owned(),
            name: "created".to_owned(),
            rule: "r".to_owned(),
            detail: vec![0; detail_bytes].into(),
        };
        let put = Put {
            times: Times { now_ms: 1, grace_ms: 1, outcome_ms: 1 },
            write: Id([number; 16]),
            key: format!("k{number}"),
            condition: Condition::Always,
            mode: Mode::Off,
            etag: String::new(),
            class: None,
            body: Body::default(),
            default_retention: None,
            reserve: None,
            events: vec![event],
        };
        // A repetition stores no second event.
        for _ in 0..2 {
            self.call("put", &put).unwrap();
        }
    }

    fn settle(&self, done: &[u64], dead: &[u64], revived: &[u64]) -> Result<()> {
        let reason = "refused".to_owned();
        let dead =
            dead.iter().map(|number| FailedEvent { number: *number, reason: reason.clone() }).collect();
        let (done, revived) = (done.to_vec(), revived.to_vec());
        let settle = Settle { queue: QUEUE.to_owned(), now_ms: 2, done, dead, revived };
        self.call("settle", &settle).map(drop)
    }

    /// The numbers of the events with this prefix, and the sum of their bytes.
    fn events(&self, prefix: Bytes) -> (Vec<u64>, u64) {
        let (page, _) =
            block_on(self.pool.fetch(&self.object, Fetch::omap_range(None, prefix, 100))).unwrap();
        let bytes = page.entries.iter().map(|(_, value)| {
            assert!(Event::from_stored(value).is_ok());
            value.len() as u64
        });
        let bytes = bytes.sum();
        (page.entries.iter().map(|(key, _)| keys::event_number(key).unwrap()).collect(), bytes)
    }

    /// The numbers of the waiting and of the dead events, and how many are lost.
    fn state(&self) -> (Vec<u64>, Vec<u64>, u64) {
        let (waiting, waiting_bytes) = self.events(keys::events_prefix(QUEUE));
        let (dead, dead_bytes) = self.events(keys::dead_events_prefix(QUEUE));
        let key = keys::queue(QUEUE);
        let (page, _) = block_on(self.pool.fetch(&self.object, Fetch::omap_get([key]))).unwrap();
        let queue = Queue::from_stored(&page.entries[0].1).unwrap();
        assert_eq!((queue.waiting, queue.dead), (waiting.len() as u64, dead.len() as u64));
        assert_eq!(queue.bytes, waiting_bytes + dead_bytes);
        (waiting, dead, queue.lost)
    }
}

#[test]
fn a_full_queue_loses_new_events() {
    let shard = Shard::new();
    (1..=10).for_each(|number| shard.put(number, 0));
    let (waiting, dead, lost) = shard.state();
    assert_eq!((waiting.len(), dead.len(), lost), (8, 0, 2));
    // Then there is room again.
    shard.settle(&waiting[..1], &[], &[]).unwrap();
    shard.put(11, 0);
    let (after, _, lost) = shard.state();
    assert_eq!((&after[..7], lost), (&waiting[1..], 2));
    assert!(after[7] > waiting[7]);
}

#[test]
fn large_events_fill_a_queue_earlier() {
    let shard = Shard::new();
    (1..=4).for_each(|number| shard.put(number, 1_500));
    let (waiting, _, lost) = shard.state();
    assert_eq!((waiting.len(), lost), (2, 2));
    shard.settle(&[], &waiting, &[]).unwrap();
    shard.put(5, 1_500);
    assert_eq!(shard.state(), (vec![], waiting.clone(), 3));
    shard.settle(&waiting, &[], &[]).unwrap();
    shard.put(6, 1_500);
    assert_eq!(shard.state().0.len(), 1);
}

#[test]
fn the_oldest_dead_events_are_lost() {
    let shard = Shard::new();
    (1..=8).for_each(|number| shard.put(number, 0));
    let (all, ..) = shard.state();
    shard.settle(&[], &all[..3], &[]).unwrap();
    shard.settle(&[], &all[3..6], &[]).unwrap();
    assert_eq!(shard.state(), (all[6..].to_vec(), all[2..6].to_vec(), 2));
    // One call moves events in both directions: there is room for the revived one.
    shard.settle(&[], &all[6..], &all[2..3]).unwrap();
    assert_eq!(shard.state(), (all[2..3].to_vec(), all[4..].to_vec(), 3));
    // More dead events than the limit, in one call.
    (11..=17).for_each(|number| shard.put(number, 0));
    let (waiting, ..) = shard.state();
    shard.settle(&[], &waiting, &[]).unwrap();
    let (waiting, dead, lost) = shard.state();
    assert_eq!((waiting.len(), dead.len(), lost), (0, 4, 11));
}

#[test]
fn a_full_queue_revives_no_event() {
    let shard = Shard::new();
    (1..=3).for_each(|number| shard.put(number, 0));
    let (first, ..) = shard.state();
    shard.settle(&[], &first, &[]).unwrap();
    (11..=17).for_each(|number| shard.put(number, 0));
    let before = shard.state();
    assert_eq!(shard.settle(&[], &[], &first).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert_eq!(shard.state(), before);
    shard.settle(&[], &[], &first[..1]).unwrap();
    assert_eq!(shard.state().0.len(), 8);
}
