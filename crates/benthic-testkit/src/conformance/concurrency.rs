//! Many concurrent clients: operations on one object are atomic, and no update is lost.

use super::Case;
use super::support::kind;
use benthic_core::{Compare, ErrorKind, Fetch, ObjectId, WriteOp};
use bytes::Bytes;
use futures::executor::block_on;
use std::collections::BTreeSet;
use std::thread;

const THREADS: usize = 8;
/// Increments of a counter by each thread.
const COUNTS: usize = 15;

/// Runs `work` in `THREADS` threads and returns the results of all.
fn in_parallel<T: Send>(work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> = (0..THREADS).map(|index| scope.spawn(move || work(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

pub(super) async fn parallel_appends_all_arrive(case: &Case<'_>) {
    let object = case.object("o");
    in_parallel(|thread| {
        for index in 0..25 {
            let op = WriteOp::new().append(format!("{thread}-{index:02};"));
            block_on(case.pool.write(&object, op)).unwrap();
        }
    });
    let data = case.state(&object).await.unwrap().data;
    let records: Vec<_> = str::from_utf8(&data).unwrap().split_terminator(';').collect();
    assert_eq!(records.len(), THREADS * 25);
    for thread in 0..THREADS {
        let own: Vec<_> = records.iter().filter(|record| record.starts_with(&format!("{thread}-"))).collect();
        let expected: Vec<_> = (0..25).map(|index| format!("{thread}-{index:02}")).collect();
        assert_eq!(own, expected.iter().collect::<Vec<_>>(), "in the order of their acknowledgement");
    }
}

/// All threads increment a number by read and guarded write. A thread retries while others write in
/// between.
fn count_up(
    case: &Case<'_>,
    object: &ObjectId,
    read: impl Fn() -> (u64, WriteOp) + Sync,
    set: impl Fn(WriteOp, u64) -> WriteOp + Sync,
) {
    in_parallel(|_| {
        let mut left = COUNTS;
        while left > 0 {
            let (value, guarded) = read();
            match block_on(case.pool.write(object, set(guarded, value + 1))) {
                Ok(_) => left -= 1,
                Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}"),
            }
        }
    });
}

fn number(value: &[u8]) -> u64 {
    str::from_utf8(value).unwrap().parse().unwrap()
}

pub(super) async fn counters_guarded_by_version_lose_nothing(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write_full(&object, "0").await.unwrap();
    let read = || {
        let (data, version) = block_on(case.pool.fetch(&object, Fetch::read(0, 20))).unwrap();
        (number(&data), WriteOp::new().assert_version(version))
    };
    count_up(case, &object, read, |op, value| op.write_full(value.to_string()));
    assert_eq!(case.state(&object).await.unwrap().data, (THREADS * COUNTS).to_string());
}

pub(super) async fn counters_guarded_by_attribute_lose_nothing(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write(&object, WriteOp::new().set_xattr("n", "0")).await.unwrap();
    let read = || {
        let value = block_on(case.pool.get_xattr(&object, "n")).unwrap();
        (number(&value), WriteOp::new().cmp_xattr("n", Compare::Eq, value))
    };
    count_up(case, &object, read, |op, value| op.set_xattr("n", value.to_string()));
    assert_eq!(case.pool.get_xattr(&object, "n").await.unwrap(), (THREADS * COUNTS).to_string());
}

pub(super) async fn counters_guarded_by_omap_lose_nothing(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write(&object, WriteOp::new().omap_set([("n", "0")])).await.unwrap();
    let read = || {
        let value = block_on(case.state(&object)).unwrap().omap[&b"n"[..]].clone();
        (number(&value), WriteOp::new().cmp_omap("n", value))
    };
    count_up(case, &object, read, |op, value| op.omap_set([("n", value.to_string())]));
    let omap = case.state(&object).await.unwrap().omap;
    assert_eq!(omap[&b"n"[..]], (THREADS * COUNTS).to_string());
}

pub(super) async fn create_exclusive_has_one_winner(case: &Case<'_>) {
    for round in 0..10 {
        let object = case.object(&round.to_string());
        let results = in_parallel(|thread| {
            let op = WriteOp::new().create(true).write_full(thread.to_string());
            block_on(case.pool.write(&object, op))
        });
        let data = case.state(&object).await.unwrap().data;
        for (thread, result) in results.into_iter().enumerate() {
            if data == thread.to_string() {
                result.unwrap();
            } else {
                assert_eq!(kind(result), ErrorKind::AlreadyExists, "round {round}, thread {thread}");
            }
        }
    }
}

pub(super) async fn remove_has_one_winner(case: &Case<'_>) {
    for round in 0..10 {
        let object = case.make_full(&round.to_string()).await;
        let results = in_parallel(|_| block_on(case.pool.remove(&object)));
        let (removed, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!(removed.len(), 1, "round {round}");
        assert!(failed.into_iter().all(|result| kind(result) == ErrorKind::NotFound));
    }
}

/// A reader always sees data, attribute, omap and version of the same write.
pub(super) async fn readers_never_see_half_an_operation(case: &Case<'_>) {
    let object = case.object("o");
    let write = async |value: String| {
        // The values exceed the size that an engine stores inline, and differ in length.
        let data = Bytes::from(value.repeat(20_000));
        let op = WriteOp::new().write_full(data).set_xattr("a", value.clone()).omap_set([("k", value)]);
        case.pool.write(&object, op).await.unwrap().version
    };
    let check = async || {
        let whole = Fetch::get_xattr("a").and(Fetch::read(0, 1024 * 1024)).and(Fetch::omap_get(["k"]));
        let (((value, data), page), version) = case.pool.fetch(&object, whole).await.unwrap();
        assert_eq!(page.entries, [(Bytes::from("k"), value.clone())]);
        assert!(data == value.repeat(20_000), "the data is not that of {value:?}");
        version
    };
    write("first".to_owned()).await;
    let versions = in_parallel(|thread| {
        let mut versions = Vec::new();
        for index in 0..20 {
            if thread < 3 {
                versions.push(block_on(write(format!("{thread}/{index}"))));
            } else {
                versions.push(block_on(check()));
            }
        }
        versions
    });
    for of_thread in &versions {
        assert!(of_thread.is_sorted(), "versions must grow: {of_thread:?}");
    }
    let written: Vec<_> = versions[..3].concat();
    assert_eq!(written.iter().collect::<BTreeSet<_>>().len(), written.len(), "a version was used twice");
    assert_eq!(check().await, written.into_iter().max().unwrap());
}

pub(super) async fn methods_on_one_object_run_one_after_another(case: &Case<'_>) {
    let object = case.object("o");
    case.pool.write(&object, WriteOp::new().create(true)).await.unwrap();
    in_parallel(|_| {
        for _ in 0..10 {
            let op = WriteOp::new().exec("hello", "old_and_new", "x");
            block_on(case.pool.write(&object, op)).unwrap();
        }
    });
    // The method appends at the size that it read. If two calls ran concurrently, one would
    // overwrite the bytes of the other.
    assert_eq!(case.size(&object).await, (THREADS * 10) as u64);
}

pub(super) async fn objects_are_independent(case: &Case<'_>) {
    in_parallel(|thread| {
        let object = case.object(&thread.to_string());
        for index in 0..10_u8 {
            let data = vec![index + thread as u8; 10_000 * (1 + usize::from(index))];
            block_on(case.pool.write_full(&object, data.clone())).unwrap();
            let read = block_on(case.pool.read_range(&object, 0, 1024 * 1024)).unwrap();
            assert!(read == data, "thread {thread}, round {index}");
        }
        block_on(case.pool.remove(&object)).unwrap();
        assert_eq!(kind(block_on(case.pool.stat(&object))), ErrorKind::NotFound);
    });
}
