use super::{INTENTS_MAX, Intent, ReservedIntents, SHARDS_MAX, SOON_MS};
use crate::sal::Id;
use benthic_core::ObjectId;

fn shard(number: usize) -> ObjectId {
    ObjectId::new(format!("shard.{number}")).unwrap()
}

#[test]
fn only_a_frequently_written_shard_reserves_intents() {
    let reserved = ReservedIntents::default();
    assert!(!reserved.should_reserve(&shard(0), 1));
    assert!(reserved.should_reserve(&shard(0), 1 + SOON_MS));
    assert!(!reserved.should_reserve(&shard(0), 2 + 2 * SOON_MS));
    assert!(!reserved.should_reserve(&shard(1), 2 + 2 * SOON_MS));
}

#[test]
fn an_intent_is_taken_once_and_only_while_it_is_young() {
    let reserved = ReservedIntents::default();
    assert!(reserved.take(&shard(0), 0, 100).is_none());
    reserved.should_reserve(&shard(0), 1);
    for number in 0..2 {
        reserved.keep(&shard(0), Intent { write: Id([number; 16]), begun_ms: 1 });
    }
    assert_eq!(reserved.take(&shard(0), 100, 100).map(|intent| intent.write), Some(Id([1; 16])));
    assert!(reserved.take(&shard(0), 101, 100).is_none());
    assert!(reserved.take(&shard(0), 50, 100).is_none());
    reserved.keep(&shard(0), Intent { write: Id([2; 16]), begun_ms: 1 });
    reserved.forget(&shard(0));
    assert!(reserved.take(&shard(0), 2, 100).is_none());
}

#[test]
fn the_number_of_reserved_intents_is_limited() {
    let reserved = ReservedIntents::default();
    for number in 0..SHARDS_MAX + 10 {
        reserved.should_reserve(&shard(number), 1);
    }
    assert_eq!(reserved.shards.lock().len(), SHARDS_MAX);
    assert!(!reserved.should_reserve(&shard(SHARDS_MAX + 20), 2 + SOON_MS));
    assert_eq!(reserved.shards.lock().len(), 1);
    for _ in 0..INTENTS_MAX {
        assert!(reserved.should_reserve(&shard(SHARDS_MAX + 20), 2 + SOON_MS));
        reserved.keep(&shard(SHARDS_MAX + 20), Intent { write: Id([0; 16]), begun_ms: 1 });
    }
    assert!(!reserved.should_reserve(&shard(SHARDS_MAX + 20), 2 + SOON_MS));
}
