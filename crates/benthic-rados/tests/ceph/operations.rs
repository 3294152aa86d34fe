//! Behaviour specific to this engine: time-outs, dropped futures, Ceph's own classes, list tokens.

use crate::support::{OwnPool, block_on, ceph, connect, id, kind, options};
use benthic_core::{
    ClassCall, ErrorKind, Fetch, ListRequest, ListToken, Namespaces, ObjectId, ReadOp, Stopwatch, Store,
    SystemClock, WriteOp,
};
use benthic_rados::{Options, RadosStore};
use futures::FutureExt;
use futures::future::{join_all, try_join_all};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;

/// The pool requires more replicas than there are OSDs, so its placement groups are inactive.
#[test]
fn time_outs_end_every_operation_with_the_right_kind() {
    let own = OwnPool::new("stuck");
    block_on(own.pool.write_full(&id("o"), "data")).unwrap();
    ceph(&["osd", "pool", "set", own.pool.name(), "size", "10"]);
    ceph(&["osd", "pool", "set", own.pool.name(), "min_size", "10"]);
    let impatient = Options { osd_timeout_ms: 3_000, ..options() };
    let store = RadosStore::connect(Some(crate::support::conf()), None, impatient).unwrap();
    let pool = block_on(store.open_pool(own.pool.name())).unwrap();
    // The new pool setting takes a moment to reach the OSD.
    let stuck = || kind(block_on(pool.write(&id("o"), WriteOp::new().create(false))));
    assert!((0..100).any(|_| stuck() == Some(ErrorKind::OutcomeUnknown)), "the pool still takes I/O");

    let started = Stopwatch::start(&SystemClock);
    let call = |method: &str| ClassCall { class: "hello".into(), method: method.into(), input: "".into() };
    let native = ClassCall { class: "version".into(), method: "read".into(), input: "".into() };
    let (write, read, list, record, say, native) = block_on(async {
        let (o, list) = (id("o"), ListRequest::default());
        futures::join!(
            pool.write_full(&o, "x"),
            pool.read_range(&o, 0, 10),
            pool.list(list),
            pool.exec(&o, call("record")),
            pool.exec(&o, call("say")),
            pool.exec(&o, native),
        )
    });
    assert_eq!(kind(write), Some(ErrorKind::OutcomeUnknown));
    assert_eq!(kind(read), Some(ErrorKind::Unavailable));
    assert_eq!(kind(list), Some(ErrorKind::Unavailable));
    assert_eq!(kind(record), Some(ErrorKind::OutcomeUnknown));
    assert_eq!(kind(say), Some(ErrorKind::Unavailable));
    assert_eq!(
        kind(native),
        Some(ErrorKind::OutcomeUnknown),
        "the client does not know whether the method writes"
    );
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}

#[test]
fn many_operations_are_in_flight_at_once() {
    let own = OwnPool::new("flight");
    let names: Vec<_> = (0..2_000).map(|index| id(&index.to_string())).collect();
    let writes = names.iter().map(|name| own.pool.write_full(name, name.name().to_owned()));
    block_on(try_join_all(writes)).unwrap();
    let read = block_on(try_join_all(names.iter().map(|name| own.pool.read_range(name, 0, 100)))).unwrap();
    assert!(read.iter().zip(&names).all(|(data, name)| data == name.name().as_bytes()));
}

/// librados writes into the buffers of an operation after its future was dropped.
#[test]
fn dropped_futures_harm_nothing() {
    let own = OwnPool::new("dropped");
    let data = vec![7; 1 << 20];
    block_on(
        own.pool.write(
            &id("o"),
            WriteOp::new().write_full(data.clone()).set_xattr("a", "1").omap_set([("k", "v")]),
        ),
    )
    .unwrap();
    // If the thread is descheduled, the operation may be complete already.
    let (mut reads_dropped, mut writes_dropped) = (0, 0);
    for round in 0..50 {
        let read = ReadOp::new().read(0, 1 << 20).list_xattrs().omap_range(None, "", 10).stat();
        reads_dropped += i32::from(own.pool.read(&id("o"), read).now_or_never().is_none());
        let write = WriteOp::new().write_full(data.clone());
        writes_dropped += i32::from(own.pool.write(&id(&round.to_string()), write).now_or_never().is_none());
    }
    assert!(reads_dropped > 25 && writes_dropped > 25, "{reads_dropped} reads, {writes_dropped} writes");
    assert_eq!(block_on(own.pool.read_range(&id("o"), 0, 2 << 20)).unwrap(), data);
    // An operation that was sent takes effect even if its future is dropped. Operations on one
    // object keep their order.
    let sizes = block_on(join_all(
        (0..50)
            .map(|round| async move { id(&round.to_string()) })
            .map(|object| async { own.pool.stat(&object.await).await.unwrap().0.size_bytes }),
    ));
    assert_eq!(sizes, [1 << 20; 50]);
}

/// The last handle may be dropped while operations are in flight, even inside a librados callback.
#[test]
fn operations_outlive_their_store() {
    let own = OwnPool::new("gone");
    for round in 0..20 {
        let store = connect();
        let pool = block_on(store.open_pool(own.pool.name())).unwrap();
        // The operation is usually still in flight, so this drops the last handle.
        let _ = pool.write_full(&id(&round.to_string()), vec![1; 1 << 20]).now_or_never();
    }
    let written = |round: i32| kind(block_on(own.pool.stat(&id(&round.to_string())))).is_none();
    let started = Stopwatch::start(&SystemClock);
    while !(0..20).all(written) {
        assert!(started.elapsed() < Duration::from_secs(30), "a write that was sent did not happen");
    }
}

/// The engine treats a class that is not in the registry as one of Ceph's own.
#[test]
fn native_classes_are_called_by_their_names() {
    let own = OwnPool::new("native");
    let string =
        |text: &str| [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat();
    let input = [string("counter"), string("41.5")].concat();
    let call = || ClassCall { class: "numops".into(), method: "add".into(), input: input.clone().into() };
    block_on(own.pool.exec(&id("o"), call())).unwrap();
    block_on(own.pool.write(&id("o"), WriteOp::new().exec("numops", "add", input.clone()))).unwrap();
    let (page, _) = block_on(own.pool.fetch(&id("o"), Fetch::omap_get(["counter"]))).unwrap();
    assert_eq!(page.entries[0].1, "83");
    let bad = ClassCall { input: "?".into(), ..call() };
    assert_eq!(kind(block_on(own.pool.exec(&id("o"), bad))), Some(ErrorKind::InvalidArgument));
    let missing = ClassCall { class: "no_such_class".into(), ..call() };
    let error = block_on(own.pool.exec(&id("o"), missing)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("osd_class_dir"), "{error}");
}

/// `lock` is Benthic's class. `ceph.lock` is Ceph's, which other Ceph programs use.
#[test]
fn the_prefix_selects_the_class_of_ceph() {
    let own = OwnPool::new("prefix");
    let string =
        |text: &str| [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], text.as_bytes()].concat();
    // Encoding version and length; then name, exclusive type, cookie, empty tag and description, no
    // expiry, no flags.
    let fields = [string("l"), vec![1], string("c"), string(""), string(""), vec![0; 8], vec![0]].concat();
    let input = [&[1, 1][..], &u32::try_from(fields.len()).unwrap().to_le_bytes(), &fields].concat();
    let lock = || WriteOp::new().exec("ceph.lock", "lock", input.clone());
    let missing = block_on(own.pool.write(&id("o"), lock().assert_exists()));
    assert_eq!(kind(missing), Some(ErrorKind::NotFound));
    block_on(own.pool.write(&id("o"), lock())).unwrap();
    let mut rados = Command::new("rados");
    rados.arg("--conf").arg(crate::support::conf()).args([
        "--pool",
        own.pool.name(),
        "lock",
        "info",
        "o",
        "l",
    ]);
    let listed = String::from_utf8(rados.output().unwrap().stdout).unwrap();
    assert!(listed.contains("exclusive"), "{listed}");
    assert_eq!(kind(block_on(own.pool.write(&id("o"), lock()))), Some(ErrorKind::AlreadyExists));
    let ours = ClassCall { class: "lock".into(), method: "list".into(), input: "".into() };
    assert_eq!(block_on(own.pool.exec(&id("o"), ours)).unwrap(), "[]");
}

/// A token is a position in the cluster's order and independent of the client.
#[test]
fn a_listing_continues_in_another_client() {
    let own = OwnPool::new("tokens");
    let objects = (0..300)
        .map(|index| ObjectId::in_namespace(["", "a", "b"][index % 3], format!("object {index}")).unwrap());
    let made: BTreeSet<_> = objects.collect();
    block_on(try_join_all(made.iter().map(|object| own.pool.write_full(object, "x")))).unwrap();
    let mut listed = BTreeSet::new();
    let mut after = None;
    loop {
        let store = connect();
        let pool = block_on(store.open_pool(own.pool.name())).unwrap();
        let request =
            ListRequest { namespaces: Namespaces::All, after, objects_max: 17, ..ListRequest::default() };
        let page = block_on(pool.list(request)).unwrap();
        for object in page.objects {
            assert!(listed.insert(object.clone()), "{object} is listed twice");
        }
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(listed, made);
}

/// Nothing follows the last of the 2^32 hashes; the listing must not start over.
#[test]
fn a_listing_that_stopped_in_the_last_hash_ends() {
    let own = OwnPool::new("last");
    block_on(own.pool.write_full(&id("o"), "x")).unwrap();
    // The token of a page that ends between objects of the same hash: mark, hash, namespace, NUL,
    // name.
    let token = [&b"rados1"[..], &u32::MAX.to_le_bytes(), b"\0name"].concat();
    let after = Some(ListToken(token.into()));
    let page = block_on(own.pool.list(ListRequest { after, ..ListRequest::default() })).unwrap();
    assert_eq!((page.objects, page.next), (Vec::new(), None));
}

/// The C interface takes the start key of a page as a C string.
#[test]
fn omap_keys_with_nul_bytes_are_listed_or_refused_never_lost() {
    let own = OwnPool::new("nul");
    let key = |index: usize| [&b"k\0"[..], format!("{index:04}").as_bytes()].concat();
    let few = WriteOp::new().omap_set((0..1_000).map(|index| (key(index), "v")));
    block_on(own.pool.write(&id("few"), few)).unwrap();
    let mut found = 0;
    let mut after = None;
    loop {
        let range = Fetch::omap_range(after.take(), &b"k\0"[..], 300);
        let (page, _) = block_on(own.pool.fetch(&id("few"), range)).unwrap();
        for (at, (got, _)) in page.entries.iter().enumerate() {
            assert_eq!(*got, key(found + at));
        }
        found += page.entries.len();
        after = page.entries.last().map(|(key, _)| key.clone());
        if !page.more {
            break;
        }
    }
    assert_eq!(found, 1_000);
    let many = WriteOp::new().omap_set((0..1_100).map(|index| (key(index), "v")));
    block_on(own.pool.write(&id("many"), many)).unwrap();
    let behind = ReadOp::new().omap_range(Some(key(1_050).into()), "", 10);
    assert_eq!(kind(block_on(own.pool.read(&id("many"), behind))), Some(ErrorKind::Unsupported));
}

#[test]
fn the_namespace_that_selects_all_is_unsupported() {
    let own = OwnPool::new("all");
    let object = ObjectId::in_namespace("\u{1}", "o").unwrap();
    assert_eq!(kind(block_on(own.pool.write_full(&object, "x"))), Some(ErrorKind::Unsupported));
    let request = ListRequest { namespaces: Namespaces::One("\u{1}".into()), ..ListRequest::default() };
    assert_eq!(kind(block_on(own.pool.list(request))), Some(ErrorKind::Unsupported));
}

#[test]
fn a_full_pool_refuses_and_does_not_hang() {
    let own = OwnPool::new("full");
    block_on(own.pool.write_full(&id("0"), "x")).unwrap();
    ceph(&["osd", "pool", "set-quota", own.pool.name(), "max_objects", "1"]);
    let started = Stopwatch::start(&SystemClock);
    // The monitors take some seconds to notice.
    for round in 1.. {
        let written = block_on(own.pool.write_full(&id(&round.to_string()), "x"));
        if let Err(error) = written {
            assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
            assert!(error.to_string().contains("full"), "{error}");
            break;
        }
        assert!(started.elapsed() < Duration::from_secs(60), "the pool never fills");
    }
    block_on(own.pool.remove(&id("0"))).unwrap();
}

/// The state after an interrupted pool creation.
#[test]
fn a_repeated_pool_creation_adds_the_missing_application() {
    let own = OwnPool::new("application");
    let name = own.pool.name();
    ceph(&["osd", "pool", "application", "disable", name, "benthic", "--yes-i-really-mean-it"]);
    assert!(!ceph(&["osd", "pool", "application", "get", name]).contains("benthic"));
    assert_eq!(kind(block_on(own.store.create_pool(name))), Some(ErrorKind::AlreadyExists));
    assert!(ceph(&["osd", "pool", "application", "get", name]).contains("benthic"));
    // A pool with another application is left unchanged.
    ceph(&["osd", "pool", "application", "disable", name, "benthic", "--yes-i-really-mean-it"]);
    ceph(&["osd", "pool", "application", "enable", name, "other"]);
    assert_eq!(kind(block_on(own.store.create_pool(name))), Some(ErrorKind::AlreadyExists));
    assert!(!ceph(&["osd", "pool", "application", "get", name]).contains("benthic"));
}

#[test]
fn a_refused_pool_removal_names_the_setting_that_allows_it() {
    let own = OwnPool::new("kept");
    ceph(&["osd", "pool", "set", own.pool.name(), "nodelete", "true"]);
    let error = block_on(own.store.remove_pool(own.pool.name())).err().unwrap();
    ceph(&["osd", "pool", "set", own.pool.name(), "nodelete", "false"]);
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
    assert!(error.to_string().contains("nodelete"), "{error}");
}
