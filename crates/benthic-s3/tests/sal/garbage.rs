use super::faulty::{FaultPlan, FaultyPool, Last};
use super::{Case, GRACE_MS, LEASE_MS, Pools, data, kind};
use async_trait::async_trait;
use benthic_core::{
    ClassCall, ErrorKind, ListPage, ListRequest, ObjectId, Pool, ReadOp, ReadReply, Result, WriteOp,
    WriteReply,
};
use benthic_s3::sal::{CollectionStats, NewBucket, Sal, Versioning};
use bytes::Bytes;
use futures::executor::block_on;
use std::sync::Arc;

pub fn replaced_data_are_removed_after_the_grace_period(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", &data(1, 5 << 20));
    // Write through another gateway. It has not written to this shard before, so it reserves no
    // intent.
    super::put(case.another().as_ref(), &bucket, "k", b"2", super::finish(b"2")).unwrap();
    let pending = block_on(case.sal.pending()).unwrap();
    assert_eq!((pending.entries, pending.due_entries, pending.outcomes, pending.writes), (1, 0, 2, 0));
    case.clock.advance_ms(GRACE_MS - 1);
    let collected = block_on(case.sal.collect()).unwrap();
    assert_eq!((collected.entries, case.data_objects(&bucket).len()), (0, 3));
    case.clock.advance_ms(1);
    assert_eq!(block_on(case.sal.pending()).unwrap().due_entries, 1);
    let collected = block_on(case.sal.collect()).unwrap();
    assert_eq!((collected.entries, collected.data_objects), (1, 2));
    assert_eq!(case.data_objects(&bucket).len(), 1);
    assert_eq!(block_on(case.sal.collect()).unwrap(), CollectionStats::default());
    case.finish(&[&bucket]);
}

pub fn reserved_intents_save_a_call(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let plan = FaultPlan::new(u64::MAX, Last::Refused);
    let sal = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
    let operations = |data: &[u8]| {
        let before = plan.operations();
        super::put(sal.as_ref(), &bucket, "k", data, super::finish(data)).unwrap();
        plan.operations() - before
    };
    // The first two writes take three operations: intent, data, key. From the third write on, the
    // previous one has already stored the intent.
    assert_eq!([1, 2, 3, 4].map(|number| operations(&[number])), [3, 3, 2, 2]);
    assert_eq!(operations(&data(1, 5 << 20)), 4, "a write of several data objects needs its own intent");
    // An intent that would expire soon is not used, and expires.
    case.clock.advance_ms(LEASE_MS / 4);
    assert_eq!([5, 6, 7].map(|number| operations(&[number])), [3, 3, 2]);
    case.clock.advance_ms(LEASE_MS * 3 / 4);
    assert_eq!(block_on(case.sal.collect()).unwrap().expired_writes, 2);
    // A gateway whose clock is ahead expires the intent. The write then fails and leaves nothing.
    assert_eq!([8, 9].map(|number| operations(&[number])), [3, 3]);
    block_on(case.ahead_of(2 * LEASE_MS).collect()).unwrap();
    let failed = super::put(sal.as_ref(), &bucket, "k", b"10", super::finish(b"10"));
    assert_eq!(kind(failed), ErrorKind::Unavailable);
    assert_eq!(case.get(&bucket, "k"), [9]);
    assert_eq!(case.data_objects(&bucket).len(), 11);
    assert_eq!(operations(b"11"), 3);
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket).len(), 1);
}

/// A pool of data in which a collection runs after every listing.
struct CollectedPool {
    inner: Arc<dyn Pool>,
    collector: Arc<dyn Sal>,
}

#[async_trait]
impl Pool for CollectedPool {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        self.inner.read(object, op).await
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        self.inner.write(object, op).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        self.inner.exec(object, call).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        let page = self.inner.list(request).await?;
        self.collector.collect().await?;
        Ok(page)
    }
}

pub fn a_check_reports_no_data_that_are_collected_meanwhile(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let mut writer = block_on(case.sal.write(&bucket, "k", None, None, None, None)).unwrap();
    block_on(writer.write(data(1, 5 << 20).into())).unwrap();
    block_on(writer.abort()).unwrap();
    let listed = case.data_objects(&bucket).len();
    assert!(listed > 0);
    let collected = CollectedPool { inner: Arc::clone(&case.pools.data), collector: case.another() };
    let pools = Pools { data: Arc::new(collected), ..case.pools.clone() };
    let checked = block_on(case.on(&pools).unwrap().check_bucket(&bucket)).unwrap();
    assert_eq!((checked.data_objects, checked.findings), (listed as u64, vec![]));
    assert!(case.data_objects(&bucket).is_empty());
    case.finish(&[&bucket]);
}

pub fn outcomes_expire(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    for n in 0..50 {
        case.put(&bucket, &format!("k{n}"), b"");
    }
    assert_eq!(block_on(case.sal.pending()).unwrap().outcomes, 50);
    case.clock.advance_ms(LEASE_MS);
    assert_eq!(block_on(case.sal.collect()).unwrap().forgotten_outcomes, 50);
    case.finish(&[&bucket]);
}

pub fn a_half_created_bucket_is_removed(case: &Case) {
    let new = || NewBucket { name: "b".into(), owner: "ada".into(), ..NewBucket::default() };
    // The gateway opens the store, records the bucket, creates a shard, and dies.
    let plan = FaultPlan::new(3, Last::Refused);
    let dying = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
    assert_eq!(kind(block_on(dying.create_bucket(new()))), ErrorKind::Unavailable);
    assert_eq!(case.index_objects().len(), 2);
    assert_eq!(kind(block_on(case.sal.bucket("b"))), ErrorKind::NotFound);
    // The name is free at once.
    let bucket = block_on(case.sal.create_bucket(new())).unwrap();
    case.put(&bucket, "k", b"1");
    case.finish(&[&bucket]);
    assert_eq!(case.index_objects().len(), 1 + bucket.shards as usize);
}

pub fn different_clocks_lose_no_data(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    case.put(&bucket, "k", b"old");
    // Write all data, then collect through a gateway whose clock is far ahead.
    let mut writer = block_on(case.sal.write(&bucket, "k", None, Some(3), None, None)).unwrap();
    block_on(writer.write("new".into())).unwrap();
    let ahead = case.ahead_of(100 * LEASE_MS);
    block_on(ahead.collect()).unwrap();
    let finished = block_on(writer.finish(super::finish(b"new")));
    // The write had not stored an intent yet, so the collector had nothing to expire. The commit
    // succeeds.
    assert!(finished.is_ok());
    assert_eq!(case.get(&bucket, "k"), b"new");
    // An expired write fails as a whole.
    let mut writer = block_on(case.sal.write(&bucket, "k", None, None, None, None)).unwrap();
    block_on(writer.write(data(1, 5 << 20).into())).unwrap();
    block_on(ahead.collect()).unwrap();
    assert_eq!(kind(block_on(writer.finish(super::finish(b"late")))), ErrorKind::Unavailable);
    assert_eq!(case.get(&bucket, "k"), b"new");
    case.check(&bucket);
    case.finish(&[&bucket]);
    assert_eq!(case.data_objects(&bucket).len(), 1);
}

pub fn damage_in_one_bucket_does_not_stop_collection(case: &Case) {
    let buckets = ["a", "b"].map(|name| case.bucket(name, Versioning::Off));
    for bucket in &buckets {
        case.put(bucket, "k", b"old");
        case.put(bucket, "k", b"new");
    }
    let shard = case.shard(&buckets[0], 0);
    let key = bytes::Bytes::from([&b"x"[..], &[0; 24]].concat());
    let write = |op| block_on(case.pools.index.write(&shard, op)).unwrap();
    write(WriteOp::new().omap_set([(key.clone(), "damaged")]));
    case.clock.advance_ms(GRACE_MS);
    assert_eq!(kind(block_on(case.sal.collect())), ErrorKind::Corrupt);
    assert_eq!(case.data_objects(&buckets[1]).len(), 1);
    write(WriteOp::new().omap_remove([key]));
    case.finish(&[&buckets[0], &buckets[1]]);
}
