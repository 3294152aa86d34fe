//! The suite that defines the behaviour of a SAL driver. `tests/it` runs it on the engines in this
//! process, `tests/ceph` on a real cluster. Every case has a separate store and leaves it clean:
//! the check reports no findings, and after all leases have ended nothing is left to collect.

pub mod append;
pub mod buckets;
pub mod classes;
pub mod conditions;
pub mod copies;
pub mod crash;
pub mod encryption;
pub mod events;
pub mod faulty;
pub mod garbage;
pub mod keys;
pub mod listing;
pub mod locks;
pub mod model;
pub mod objects;
pub mod records;
pub mod uploads;
pub mod versions;

use benthic_core::{
    Clock, Environment, ErrorKind, ListRequest, ManualClock, Namespaces, ObjectId, Pool, Result, Store,
    SystemRandom,
};
use benthic_s3::sal::{
    Attributes, Bucket, Delete, DeleteResult, Entry, Finish, Id, List, ListKind, ListedVersion, Lock,
    NewBucket, Object, PartId, PartRef, PendingGarbage, Reader, Sal, VersionId, Versioning, WriteResult,
};
use benthic_s3::{Options, PoolSal};
use benthic_testkit::random::Rng;
use bytes::Bytes;
use futures::executor::block_on;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The pools of a suite: one for the index, one for data, and one for storage classes, which the
/// driver opens by its name.
#[derive(Clone)]
pub struct Pools {
    pub index: Arc<dyn Pool>,
    pub data: Arc<dyn Pool>,
    pub cold: Arc<dyn Pool>,
    pub store: Arc<dyn Store>,
}

pub const LEASE_MS: u64 = 60_000;
pub const GRACE_MS: u64 = 600_000;

/// A driver whose data are behind another one.
pub trait Front: Send + Sync {
    /// Opens the driver over the driver that has the data and one for its own records.
    fn open(&self, far: &Arc<dyn Sal>, own: Arc<dyn Sal>) -> Arc<dyn Sal>;

    /// Waits until the driver that has the data has all acknowledged changes.
    fn drain(&self) {}

    /// Precedes the names of buckets in the driver that has the data.
    fn prefix(&self) -> &str;
}

/// One run of one case.
pub struct Case {
    pub pools: Pools,
    pub sal: Arc<dyn Sal>,
    pub clock: Arc<ManualClock>,
    options: Options,
    /// For a driver under test whose data are behind another one: how it is opened, and the driver
    /// with the data.
    front: Option<(Box<dyn Front>, Arc<dyn Sal>)>,
    /// The ids that buckets have in the driver with the data.
    far_ids: Mutex<BTreeMap<String, Id>>,
}

impl Case {
    pub fn new(pools: &Pools, name: &str) -> Case {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let clock = Arc::new(ManualClock::default());
        clock.advance_ms(1_700_000_000_000);
        let environment = Environment { clock: clock.clone(), random: Arc::new(SystemRandom) };
        let run = RUNS.fetch_add(1, Ordering::Relaxed);
        let options = Options {
            namespace: format!("s3.{name}.{}.{run}", std::process::id()),
            lease_ms: LEASE_MS,
            grace_ms: GRACE_MS,
            outcome_ms: LEASE_MS,
            shards: 3,
            environment,
            ..Options::default()
        };
        let pools = pools.clone();
        let sal = open(&pools, &options).unwrap();
        Case { pools, sal, clock, options, front: None, far_ids: Mutex::default() }
    }

    /// A case of a driver whose data are behind the driver on pools.
    pub fn behind(pools: &Pools, name: &str, front: Box<dyn Front>) -> Case {
        let case = Case::new(pools, name);
        // Signatures have the time of this machine.
        let now_ms = Environment::default().unix_ms();
        case.clock.advance_ms(now_ms - case.clock_ms());
        let far = Arc::clone(&case.sal);
        let sal = front.open(&far, case.own());
        Case { sal, front: Some((front, far)), ..case }
    }

    /// The driver of the records of a driver whose data are elsewhere.
    fn own(&self) -> Arc<dyn Sal> {
        let namespace = format!("{}.own", self.options.namespace);
        open(&self.pools, &Options { namespace, ..self.options.clone() }).unwrap()
    }

    pub fn clock_ms(&self) -> u64 {
        self.clock.monotonic_ms()
    }

    /// Opens another gateway on the same store.
    pub fn another(&self) -> Arc<dyn Sal> {
        match &self.front {
            Some((front, far)) => {
                front.drain();
                front.open(far, self.own())
            }
            None => open(&self.pools, &self.options).unwrap(),
        }
    }

    /// Waits until all gateways, and the driver that has the data, see all acknowledged changes.
    pub fn drain(&self) {
        if let Some((front, _)) = &self.front {
            front.drain();
        }
    }

    /// Opens another gateway on pools that wrap those of this store.
    pub fn on(&self, pools: &Pools) -> Result<Arc<dyn Sal>> {
        open(pools, &self.options)
    }

    /// Opens another gateway whose clock is ahead.
    pub fn ahead_of(&self, by_ms: u64) -> Arc<dyn Sal> {
        let clock = Arc::new(ManualClock::default());
        clock.advance_ms(self.clock.monotonic_ms() + by_ms);
        let environment = Environment { clock, random: Arc::new(SystemRandom) };
        open(&self.pools, &Options { environment, ..self.options.clone() }).unwrap()
    }

    pub fn bucket(&self, name: &str, versioning: Versioning) -> Bucket {
        let new = NewBucket { name: name.into(), owner: "ada".into(), versioning, ..NewBucket::default() };
        let bucket = block_on(self.sal.create_bucket(new)).unwrap();
        let far = self.front.as_ref().map(|(front, far)| (format!("{}{name}", front.prefix()), far));
        if let Some(Ok(found)) = far.map(|(name, far)| block_on(far.bucket(&name))) {
            self.far_ids.lock().unwrap().insert(name.to_owned(), found.id);
        }
        bucket
    }

    /// Another gateway, as its operator sees it.
    pub fn operator(&self) -> PoolSal {
        block_on(open_pools(&self.pools, &self.options)).unwrap()
    }

    /// Offers storage classes, whose data are in the pool for them.
    pub fn offer(&self, classes: &[&str]) {
        let operator = self.operator();
        for class in classes {
            block_on(operator.set_storage_class(class, self.pools.cold.name())).unwrap();
        }
    }

    /// The data objects of a bucket in the pool of the storage classes.
    pub fn cold_objects(&self, bucket: &Bucket) -> Vec<String> {
        objects(self.pools.cold.as_ref(), &format!("{}.{}", self.options.namespace, bucket.id))
    }

    pub fn put(&self, bucket: &Bucket, key: &str, data: &[u8]) -> WriteResult {
        put(self.sal.as_ref(), bucket, key, data, finish(data)).unwrap()
    }

    pub fn object(&self, bucket: &Bucket, key: &str) -> Object {
        block_on(self.sal.object(bucket, key, None)).unwrap()
    }

    pub fn read(&self, bucket: &Bucket, object: &Object) -> Vec<u8> {
        read(self.sal.as_ref(), bucket, object).unwrap()
    }

    pub fn get(&self, bucket: &Bucket, key: &str) -> Vec<u8> {
        self.read(bucket, &self.object(bucket, key))
    }

    /// Reads an object with prefetch. Returns the object, the number of bytes that were prefetched,
    /// and the data.
    pub fn get_with_prefetch(&self, bucket: &Bucket, key: &str) -> Result<(Object, Option<u64>, Vec<u8>)> {
        block_on(async {
            let (object, ahead) = self.sal.object_with_prefetch(bucket, key).await?;
            let prefetched_bytes = ahead.as_ref().map(|ahead| ahead.len_bytes);
            let reader = self.sal.read(bucket, &object, object.all(), ahead, None).await?;
            Ok((object, prefetched_bytes, rest(reader).await?))
        })
    }

    pub fn is_missing(&self, bucket: &Bucket, key: &str, version: Option<VersionId>) -> bool {
        match block_on(self.sal.object(bucket, key, version)) {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
                true
            }
        }
    }

    pub fn delete(&self, bucket: &Bucket, key: &str, version: Option<VersionId>) -> DeleteResult {
        let delete = Delete { key: key.into(), version, ..Delete::default() };
        block_on(self.sal.delete(bucket, &delete)).unwrap()
    }

    /// A whole listing, in pages of `page` entries.
    pub fn list_all(
        &self,
        bucket: &Bucket,
        kind: ListKind,
        prefix: &str,
        delimiter: &str,
        page: u32,
    ) -> Vec<Entry> {
        let mut list =
            List { kind, prefix: prefix.into(), delimiter: delimiter.into(), after: None, entries_max: page };
        let mut entries = Vec::new();
        loop {
            let listed = block_on(self.sal.list(bucket, &list)).unwrap();
            assert!(listed.entries.len() <= page as usize);
            entries.extend(listed.entries);
            match listed.next {
                None => return entries,
                next => list.after = next,
            }
        }
    }

    /// The names of all listed keys and prefixes.
    pub fn names(&self, bucket: &Bucket, prefix: &str, delimiter: &str, page: u32) -> Vec<String> {
        names(&self.list_all(bucket, ListKind::Objects, prefix, delimiter, page))
    }

    pub fn versions(&self, bucket: &Bucket) -> Vec<ListedVersion> {
        let version = |entry| match entry {
            Entry::Version(version) => version,
            other => panic!("{other:?}"),
        };
        self.list_all(bucket, ListKind::Versions, "", "", 2).into_iter().map(version).collect()
    }

    pub fn upload(&self, bucket: &Bucket, key: &str) -> Id {
        block_on(self.sal.create_upload(bucket, key, Attributes::new(), Lock::default(), None)).unwrap()
    }

    pub fn put_part(&self, bucket: &Bucket, key: &str, upload: Id, number: u16, data: &[u8]) -> PartRef {
        let written = self.try_put_part(bucket, key, upload, number, data).unwrap();
        PartRef { number, write: written.write }
    }

    pub fn try_put_part(
        &self,
        bucket: &Bucket,
        key: &str,
        upload: Id,
        number: u16,
        data: &[u8],
    ) -> Result<WriteResult> {
        put_part(self.sal.as_ref(), bucket, key, PartId { upload, number }, data)
    }

    pub fn complete(&self, bucket: &Bucket, key: &str, upload: Id, parts: &[PartRef]) -> Result<VersionId> {
        block_on(self.sal.complete_upload(bucket, key, upload, parts, finish(b"whole")))
    }

    pub fn check(&self, bucket: &Bucket) {
        let check = block_on(self.sal.check_bucket(bucket)).unwrap();
        assert_eq!(check.findings, Vec::<String>::new());
        assert_eq!(check.usage, block_on(self.sal.usage(bucket)).unwrap());
    }

    /// Lets all leases end and collects, in rounds: one round releases shared data, the next
    /// removes it.
    pub fn settle(&self) {
        self.drain();
        for _ in 0..3 {
            self.clock.advance_ms(GRACE_MS + LEASE_MS);
            for sal in self.drivers() {
                block_on(sal.collect()).unwrap();
            }
        }
        for sal in self.drivers() {
            let pending = block_on(sal.pending()).unwrap();
            assert_eq!(pending, PendingGarbage::default(), "nothing is left to collect");
        }
    }

    /// The final checks of every case.
    pub fn finish(&self, buckets: &[&Bucket]) {
        buckets.iter().for_each(|bucket| self.check(bucket));
        self.settle();
        buckets.iter().for_each(|bucket| self.check(bucket));
    }

    /// The driver under test, and the one that has its data.
    fn drivers(&self) -> impl Iterator<Item = &Arc<dyn Sal>> {
        [&self.sal].into_iter().chain(self.front.as_ref().map(|(_, far)| far))
    }

    /// The data objects of a bucket.
    pub fn data_objects(&self, bucket: &Bucket) -> Vec<String> {
        self.drain();
        let id = self.far_ids.lock().unwrap().get(&bucket.name).copied().unwrap_or(bucket.id);
        objects(self.pools.data.as_ref(), &format!("{}.{id}", self.options.namespace))
    }

    /// A shard of a bucket's index.
    pub fn shard(&self, bucket: &Bucket, shard: u32) -> ObjectId {
        ObjectId::in_namespace(self.options.namespace.clone(), format!("index.{}.{shard}", bucket.id))
            .unwrap()
    }

    /// The objects of the index.
    pub fn index_objects(&self) -> Vec<String> {
        objects(self.pools.index.as_ref(), &self.options.namespace)
    }
}

fn open(pools: &Pools, options: &Options) -> Result<Arc<dyn Sal>> {
    Ok(Arc::new(block_on(open_pools(pools, options))?))
}

async fn open_pools(pools: &Pools, options: &Options) -> Result<PoolSal> {
    let (index, data) = (Arc::clone(&pools.index), Arc::clone(&pools.data));
    let store = Some(Arc::clone(&pools.store));
    PoolSal::open(index, data, Options { store, ..options.clone() }).await
}

fn objects(pool: &dyn Pool, namespace: &str) -> Vec<String> {
    let mut names = Vec::new();
    let namespaces = Namespaces::One(namespace.to_owned());
    let mut request = ListRequest { namespaces, ..ListRequest::default() };
    loop {
        let page = block_on(pool.list(request.clone())).unwrap();
        names.extend(page.objects.iter().map(|object| object.name().to_owned()));
        request.after = page.next;
        if request.after.is_none() {
            names.sort();
            return names;
        }
    }
}

/// The entity tag that S3 gives to data that are written at once.
pub fn etag(data: &[u8]) -> String {
    use md5::Digest;
    md5::Md5::digest(data).iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn finish(data: &[u8]) -> Finish {
    Finish { etag: etag(data), ..Finish::default() }
}

pub fn put(sal: &dyn Sal, bucket: &Bucket, key: &str, data: &[u8], finish: Finish) -> Result<WriteResult> {
    block_on(async {
        let mut writer = sal.write(bucket, key, None, Some(data.len() as u64), None, None).await?;
        writer.write(Bytes::copy_from_slice(data)).await?;
        writer.finish(finish).await
    })
}

pub fn put_part(sal: &dyn Sal, bucket: &Bucket, key: &str, part: PartId, data: &[u8]) -> Result<WriteResult> {
    block_on(async {
        let mut writer = sal.write(bucket, key, Some(part), None, None, None).await?;
        writer.write(Bytes::copy_from_slice(data)).await?;
        writer.finish(finish(data)).await
    })
}

pub fn read(sal: &dyn Sal, bucket: &Bucket, object: &Object) -> Result<Vec<u8>> {
    block_on(async { rest(sal.read(bucket, object, object.all(), None, None).await?).await })
}

pub async fn rest(mut reader: Box<dyn Reader>) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    while let Some(piece) = reader.next().await? {
        data.extend_from_slice(&piece);
    }
    Ok(data)
}

pub fn names(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.key().to_owned()).collect()
}

/// Pseudo-random bytes.
pub fn data(seed: u64, len_bytes: usize) -> Vec<u8> {
    Rng(seed).bytes(len_bytes)
}

pub fn kind<T>(result: Result<T>) -> ErrorKind {
    result.err().map(|error| error.kind()).expect("the call must fail")
}

/// Creates one `#[test]` for each case. The function makes a [`Case`] with a name.
macro_rules! sal_suite {
    ($make:path) => {
        crate::sal::sal_tests! { $make;
            records {
                records_change_by_compare_and_swap
                several_records_change_together
                names_and_values_have_limits
            }
            buckets {
                a_bucket_is_created_once
                a_bucket_changes_by_compare_and_swap
                a_bucket_with_objects_is_not_deleted
                deleting_a_bucket_removes_everything_in_it
                an_owner_lists_only_its_own_buckets
                an_interrupted_deletion_is_finished
                writers_continue_after_a_reverted_deletion
                usage_is_exact
                a_write_over_the_quota_fails
            }
            objects {
                data_of_every_size_are_read_back
                a_range_returns_exactly_its_bytes
                a_prefetch_belongs_to_the_version_that_is_found
                an_object_is_replaced_as_a_whole
                attributes_are_read_back_and_have_limits
                attributes_change_by_compare_and_swap
                an_unfinished_write_is_invisible
                a_reader_continues_while_its_object_is_replaced
                a_writer_without_a_lease_fails
                a_long_write_renews_its_lease
            }
            keys {
                keys_are_data
                keys_of_uploads_are_data
                keys_have_limits
            }
            conditions {
                conditions_of_writes_hold
                conditions_of_deletions_hold
                a_deletion_names_the_version_that_it_has_seen
                a_deletion_waits_for_its_time
                exactly_one_of_many_conditional_writers_wins
                the_last_writer_wins_and_versions_do_not_mix
            }
            listing {
                keys_are_listed_in_byte_order
                ten_thousand_keys_are_listed_by_pages
                a_delimiter_groups_keys_by_prefix
                a_listing_starts_after_its_marker
                delete_markers_are_not_listed_as_objects
                many_delete_markers_do_not_end_a_listing
                random_listings_match_an_oracle
                uploads_are_listed
                concurrent_changes_do_not_disturb_a_listing
                pages_have_limits
            }
            versions {
                versions_are_kept
                a_delete_marker_hides_an_object
                a_key_has_one_null_version
                removing_the_current_version_shows_the_previous_one
                deleting_a_missing_version_succeeds
                each_of_many_deletions_has_its_own_result
            }
            locks {
                a_lock_protects_a_version
                a_retention_period_is_only_extended
                a_false_clock_releases_nothing
                a_default_period_begins_at_the_later_time
                no_write_replaces_a_locked_version
                locks_and_attributes_change_independently
                an_upload_keeps_the_requested_lock
            }
            uploads {
                parts_become_an_object
                a_part_is_replaced
                completing_with_missing_parts_fails
                a_repeated_completion_changes_nothing
                an_aborted_upload_is_gone
                either_completion_or_abort_wins
                parts_are_listed_by_pages
                parts_have_limits
                an_upload_has_conditions_and_versions
            }
            copies {
                a_copy_outlives_its_source
                a_copy_of_a_copy_shares_the_data
                a_copy_onto_itself_changes_its_attributes
                copying_a_deleted_object_fails
                a_copy_outlives_the_bucket_of_its_source
                a_late_copy_leaves_nothing
            }
            classes {
                data_go_to_the_pool_of_their_class
                an_upload_has_the_class_of_its_object
                a_transition_changes_only_the_class
                a_transition_keeps_encrypted_data_readable
                a_transition_needs_the_version_that_was_seen
                a_late_transition_moves_nothing_back
                copies_move_independently
                a_class_keeps_its_pool
            }
            append {
                data_are_appended
                one_of_many_appends_wins
                an_append_needs_the_object_that_it_has_seen
                an_append_and_copies_keep_their_data
                an_append_during_a_transition_loses_nothing
                an_append_to_an_upload_adds_pieces
                encrypted_data_are_appended
            }
            encryption {
                encrypted_data_are_read_back
                the_store_has_no_plain_data_and_no_data_twice
                changed_swapped_and_truncated_data_are_refused
                encrypted_data_need_their_key
                parts_of_an_upload_share_a_key
            }
            events {
                each_change_stores_its_events_in_order
                a_failed_change_stores_no_event
                events_wait_until_they_are_settled
                queues_do_not_mix_and_have_limits
                data_are_read_before_they_are_visible
            }
            garbage {
                replaced_data_are_removed_after_the_grace_period
                reserved_intents_save_a_call
                a_check_reports_no_data_that_are_collected_meanwhile
                outcomes_expire
                a_half_created_bucket_is_removed
                different_clocks_lose_no_data
                damage_in_one_bucket_does_not_stop_collection
            }
            model {
                random_operations_match_the_oracle
            }
        }
    };
}

macro_rules! sal_tests {
    ($make:path; $($theme:ident { $($case:ident)* })*) => {
        $(mod $theme {
            $(
                #[test]
                fn $case() {
                    let name = concat!(stringify!($theme), ".", stringify!($case));
                    crate::sal::$theme::$case(&$make(name));
                }
            )*
        })*
    };
}

pub(crate) use {sal_suite, sal_tests};
