use super::faulty::{FaultPlan, FaultyPool, Last};
use super::{Case, Pools, finish, kind, names, put};
use benthic_core::ErrorKind;
use benthic_s3::sal::{Bucket, Delete, Entry, List, ListKind, ListPosition, NewBucket, Versioning, limits};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use futures::executor::block_on;
use std::collections::BTreeMap;

/// Writes empty objects from several threads.
fn fill(case: &Case, bucket: &Bucket, keys: &[String]) {
    std::thread::scope(|scope| {
        for keys in keys.chunks(keys.len().div_ceil(8).max(1)) {
            let sal = case.another();
            scope.spawn(move || {
                for key in keys {
                    put(sal.as_ref(), bucket, key, b"", finish(b"")).unwrap();
                }
            });
        }
    });
    case.drain();
}

fn owned(keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| (*key).to_owned()).collect()
}

/// The entries that the contract demands.
fn expected(keys: &[String], prefix: &str, delimiter: &str) -> Vec<String> {
    let mut entries: Vec<String> = keys
        .iter()
        .filter_map(|key| {
            let rest = key.strip_prefix(prefix)?;
            let at = if delimiter.is_empty() { None } else { rest.find(delimiter) };
            Some(at.map_or(key.clone(), |at| key[..prefix.len() + at + delimiter.len()].to_owned()))
        })
        .collect();
    entries.sort();
    entries.dedup();
    entries
}

pub fn keys_are_listed_in_byte_order(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    assert_eq!(case.names(&bucket, "", "", 1), Vec::<String>::new());
    let mut keys = owned(&[
        "b",
        "a",
        "a\0",
        "a ",
        "aa",
        "B",
        "é",
        "z",
        "\u{ffff}",
        "\u{10000}",
        "~",
        "日",
        "a/",
        "a-",
        "1",
        "10",
        "2",
    ]);
    fill(case, &bucket, &keys);
    // Keys sort by the bytes of UTF-8; UTF-16 would give another order.
    keys.sort();
    for page in [1, 2, 3, 100] {
        assert_eq!(case.names(&bucket, "", "", page), keys);
    }
    case.finish(&[&bucket]);
}

pub fn ten_thousand_keys_are_listed_by_pages(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let keys: Vec<String> = (0..10_000).map(|n| format!("{:03}/{:02}/{n:05}", n % 500, n % 7)).collect();
    fill(case, &bucket, &keys);
    for (prefix, delimiter, page) in [
        ("", "", 1_000),
        ("", "/", 1_000),
        ("", "/", 77),
        ("1", "/", 1_000),
        ("123/", "/", 2),
        ("", "3/", 999),
    ] {
        let found = case.names(&bucket, prefix, delimiter, page);
        assert_eq!(found, expected(&keys, prefix, delimiter), "{prefix:?} {delimiter:?}");
    }
    assert_eq!(block_on(case.sal.usage(&bucket)).unwrap().objects, 10_000);
}

pub fn a_delimiter_groups_keys_by_prefix(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let keys = owned(&[
        "a", "a/", "a//", "a//b", "a/b", "a/b/c", "a/b/d", "a0", "a\0", "a\0/x", "ab/c", "b/", "b/x/y", "/",
        "//", "/a", "é/ü/x", "é/ü/y", "x::y", "x::z", "x:y", "photos/1", "photos/2", "photos0",
    ]);
    fill(case, &bucket, &keys);
    for prefix in
        ["", "a", "a/", "a//", "a/b", "é", "é/", "/", "b/", "photos", "photos/", "nothing", "x:", "a\0"]
    {
        for delimiter in ["", "/", "//", "::", "b", "ü", "\0", "nothing", "/b/"] {
            for page in [1, 2, 1_000] {
                let found = case.names(&bucket, prefix, delimiter, page);
                assert_eq!(found, expected(&keys, prefix, delimiter), "{prefix:?} {delimiter:?} {page}");
            }
        }
    }
    let entries = case.list_all(&bucket, ListKind::Objects, "", "/", 10);
    assert!(entries.contains(&Entry::Prefix("photos/".into())));
    assert!(matches!(entries.iter().find(|entry| entry.key() == "a"), Some(Entry::Version(_))));
    case.finish(&[&bucket]);
}

pub fn a_listing_starts_after_its_marker(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let keys = owned(&["a", "b/1", "b/2", "b0", "c/1", "d"]);
    fill(case, &bucket, &keys);
    let list = |prefix: &str, delimiter: &str, after: &str| {
        let after = Some(ListPosition { key: after.into(), within: None });
        let (prefix, delimiter) = (prefix.into(), delimiter.into());
        let list = List { kind: ListKind::Objects, prefix, delimiter, after, entries_max: 100 };
        names(&block_on(case.sal.list(&bucket, &list)).unwrap().entries)
    };
    assert_eq!(list("", "", ""), keys);
    assert_eq!(list("", "", "a"), keys[1..]);
    assert_eq!(list("", "", "a\0"), keys[1..], "the marker need not exist");
    assert_eq!(list("", "", "b/1"), keys[2..]);
    assert_eq!(list("", "", "zzz"), Vec::<String>::new());
    assert_eq!(list("b/", "", "a"), ["b/1", "b/2"]);
    assert_eq!(list("b/", "", "c"), Vec::<String>::new());
    // A listing after a marker omits the prefix that equals or contains the marker.
    assert_eq!(list("", "/", "b/"), ["b0", "c/", "d"]);
    assert_eq!(list("", "/", "b/1"), ["b0", "c/", "d"]);
    assert_eq!(list("", "/", "b"), ["b/", "b0", "c/", "d"]);
    case.finish(&[&bucket]);
}

pub fn delete_markers_are_not_listed_as_objects(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    let keys: Vec<String> = (0..300).map(|n| format!("{}/{n:03}", n / 100)).collect();
    fill(case, &bucket, &keys);
    let deleted = |n: usize| n / 100 == 1 || n.is_multiple_of(3);
    for (n, key) in keys.iter().enumerate().filter(|(n, _)| deleted(*n)) {
        assert!(case.delete(&bucket, key, None).marker, "{n}");
    }
    let left: Vec<String> =
        keys.iter().enumerate().filter(|(n, _)| !deleted(*n)).map(|(_, key)| key.clone()).collect();
    for page in [7, 1_000] {
        assert_eq!(case.names(&bucket, "", "", page), left);
        assert_eq!(case.names(&bucket, "", "/", page), ["0/", "2/"], "1/ contains no objects");
    }
    let versions = case.list_all(&bucket, ListKind::Versions, "", "/", 2);
    assert_eq!(names(&versions), ["0/", "1/", "2/"], "the versions in 1/ are listed");
    case.finish(&[&bucket]);
}

pub fn many_delete_markers_do_not_end_a_listing(case: &Case) {
    let new = NewBucket {
        name: "b".into(),
        owner: "ada".into(),
        versioning: Versioning::Enabled,
        shards: Some(2),
        ..NewBucket::default()
    };
    let bucket = block_on(case.sal.create_bucket(new)).unwrap();
    // Each shard has more entries than one call scans, so listings must continue within the prefix.
    let deletes: Vec<Delete> =
        (0..9_000).map(|n| Delete { key: format!("a/{n:04}"), ..Delete::default() }).collect();
    let made = block_on(case.sal.delete_many(&bucket, &deletes));
    assert!(made.into_iter().all(|made| made.unwrap().marker));
    fill(case, &bucket, &owned(&["a0", "b/1", "c"]));
    for page in [1, 1_000] {
        assert_eq!(case.names(&bucket, "", "", page), ["a0", "b/1", "c"]);
        assert_eq!(case.names(&bucket, "", "/", page), ["a0", "b/", "c"]);
    }
    // The prefix appears exactly once as soon as it contains an object, even one at its end.
    for shown in [&["a/8999"][..], &["a/0002", "a/8999"]] {
        fill(case, &bucket, &owned(shown));
        for page in [1, 1_000] {
            assert_eq!(case.names(&bucket, "", "/", page), ["a/", "a0", "b/", "c"]);
            assert_eq!(case.names(&bucket, "a/", "/", page), shown);
        }
    }
}

pub fn uploads_are_listed(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let mut uploads = Vec::new();
    for key in ["b", "a", "b", "a/x", "b", "a/y", "c"] {
        case.clock.advance_ms(1);
        uploads.push((key.to_owned(), case.upload(&bucket, key)));
    }
    // Uploads sort by key, then by age.
    uploads.sort();
    for page in [1, 2, 100] {
        let found: Vec<_> = case
            .list_all(&bucket, ListKind::Uploads, "", "", page)
            .into_iter()
            .map(|entry| match entry {
                Entry::Upload(upload) => (upload.key, upload.upload),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(found, uploads, "{page}");
        assert_eq!(names(&case.list_all(&bucket, ListKind::Uploads, "a", "/", page)), ["a", "a/"]);
    }
    for (key, upload) in &uploads {
        block_on(case.sal.abort_upload(&bucket, key, *upload)).unwrap();
    }
    case.finish(&[&bucket]);
}

pub fn concurrent_changes_do_not_disturb_a_listing(case: &Case) {
    let bucket = case.bucket("b", Versioning::Enabled);
    let keys: Vec<String> = (0..60).map(|n| format!("k{n:02}")).collect();
    fill(case, &bucket, &keys);
    let mut list = List {
        kind: ListKind::Versions,
        prefix: String::new(),
        delimiter: String::new(),
        after: None,
        entries_max: 7,
    };
    let mut found = Vec::new();
    loop {
        let listed = block_on(case.sal.list(&bucket, &list)).unwrap();
        found.extend(names(&listed.entries));
        let Some(next) = listed.next else { break };
        // Remove or add versions of the last key, or insert keys before and after it.
        let at = found.len();
        match at % 3 {
            0 => drop(case.put(&bucket, &next.key, b"")),
            1 => {
                let version = case.object(&bucket, &next.key).version;
                case.delete(&bucket, &next.key, Some(version));
            }
            _ => drop(case.put(&bucket, &format!("k00.{at}"), b"")),
        }
        list.after = Some(next);
    }
    for key in &keys {
        let times = found.iter().filter(|found| *found == key).count();
        assert_eq!(times, 1, "{key} existed during the whole listing");
    }
    case.finish(&[&bucket]);
}

pub fn pages_have_limits(case: &Case) {
    let bucket = case.bucket("b", Versioning::Off);
    let list = |prefix: String, delimiter: String, entries_max| {
        let list = List { kind: ListKind::Objects, prefix, delimiter, after: None, entries_max };
        block_on(case.sal.list(&bucket, &list))
    };
    let text = |len| "p".repeat(len);
    for entries_max in [0, limits::LIST_ENTRIES_MAX + 1] {
        assert_eq!(kind(list(text(0), text(0), entries_max)), ErrorKind::InvalidArgument);
    }
    assert_eq!(kind(list(text(1_025), text(0), 1)), ErrorKind::LimitExceeded);
    assert_eq!(kind(list(text(0), text(1_025), 1)), ErrorKind::LimitExceeded);
    list(text(1_024), text(1_024), limits::LIST_ENTRIES_MAX).unwrap();
    let gone = Bucket { id: Default::default(), ..bucket.clone() };
    let list =
        List { kind: ListKind::Objects, prefix: text(0), delimiter: text(0), after: None, entries_max: 1 };
    assert_eq!(kind(block_on(case.sal.list(&gone, &list))), ErrorKind::NotFound);
    case.finish(&[&bucket]);
}

/// For the driver on pools only: the number of calls is not a part of the contract.
pub fn a_page_of_prefixes_takes_two_calls_of_each_shard(pools: &Pools) {
    const SHARDS: u32 = 8;
    let case = &Case::new(pools, "calls");
    let new =
        NewBucket { name: "b".into(), owner: "ada".into(), shards: Some(SHARDS), ..NewBucket::default() };
    let bucket = block_on(case.sal.create_bucket(new)).unwrap();
    let keys: Vec<String> = (0..800).map(|n| format!("{:02}/{:02}", n / 20, n % 20)).collect();
    fill(case, &bucket, &keys);
    let plan = FaultPlan::new(u64::MAX, Last::Refused);
    let sal = case.on(&FaultyPool::pools(&case.pools, &plan)).unwrap();
    for (entries_max, calls_max) in [(20, 2), (30, 2), (40, 3), (1_000, 1)] {
        let before = plan.operations();
        let list = List {
            kind: ListKind::Objects,
            prefix: String::new(),
            delimiter: "/".into(),
            after: None,
            entries_max,
        };
        let page = block_on(sal.list(&bucket, &list)).unwrap();
        let wanted = expected(&keys, "", "/");
        assert_eq!(names(&page.entries), wanted[..wanted.len().min(entries_max as usize)]);
        let calls = plan.operations() - before;
        assert!(calls <= calls_max * u64::from(SHARDS), "{entries_max}: {calls}");
    }
    case.finish(&[&bucket]);
}

/// Parts of keys. The last ones are the characters with the greatest bytes: a key is UTF-8, which
/// has no byte 0xff.
const PIECES: [&str; 10] = ["/", "a", "b", "::", ":", "\0", "é", "\u{ff}", "\u{ffff}", "\u{10ffff}"];
const DELIMITERS: [&str; 8] = ["", "/", "::", ":", "a", "\0", "/a", "\u{10ffff}"];

fn random_key(random: &mut Rng, pieces_max: usize) -> String {
    (0..random.below(pieces_max + 1)).map(|_| PIECES[random.below(PIECES.len())]).collect()
}

pub fn random_listings_match_an_oracle(case: &Case) {
    let seed = seed::one();
    let mut random = Rng(seed);
    for round in 0..3 {
        let new = NewBucket {
            name: format!("b{round}"),
            owner: "ada".into(),
            versioning: Versioning::Enabled,
            // With one shard, groups are larger. With many, most shards lack most groups.
            shards: Some([1, 2, 13][round]),
            ..NewBucket::default()
        };
        let bucket = block_on(case.sal.create_bucket(new)).unwrap();
        // For each key the number of its versions, and whether the newest is a delete marker.
        let mut oracle: BTreeMap<String, (usize, bool)> = BTreeMap::new();
        for _ in 0..120 {
            let key = random_key(&mut random, 5);
            if key.is_empty() {
                continue;
            }
            let marker = random.one_in(4);
            if marker {
                case.delete(&bucket, &key, None);
            } else {
                case.put(&bucket, &key, b"");
            }
            let (versions, newest) = oracle.entry(key).or_default();
            (*versions, *newest) = (*versions + 1, marker);
        }
        for _ in 0..60 {
            let (prefix, marker) = (random_key(&mut random, 2), random_key(&mut random, 4));
            let delimiter = DELIMITERS[random.below(DELIMITERS.len())];
            let page = [1, 2, 5, 1_000][random.below(4)];
            for kind in [ListKind::Objects, ListKind::Versions] {
                let keys = oracle.iter().filter(|(_, (_, marker))| kind == ListKind::Versions || !marker);
                let keys: Vec<String> = keys.map(|(key, _)| key.clone()).collect();
                let mut wanted = Vec::new();
                for entry in expected(&keys, &prefix, delimiter) {
                    let is_prefix = List {
                        kind,
                        prefix: prefix.clone(),
                        delimiter: delimiter.into(),
                        after: None,
                        entries_max: 1,
                    };
                    let times = match (kind, is_prefix.common_prefix(&entry)) {
                        (ListKind::Versions, None) => oracle[&entry].0,
                        _ => 1,
                    };
                    wanted.extend(std::iter::repeat_n(entry, times));
                }
                let what =
                    format!("{}={seed} {kind:?} {prefix:?} {delimiter:?} {marker:?} {page}", seed::VARIABLE);
                let found = names(&case.list_all(&bucket, kind, &prefix, delimiter, page));
                assert_eq!(found, wanted, "{what}");
                let after = (!marker.is_empty()).then(|| ListPosition { key: marker.clone(), within: None });
                let list = List {
                    kind,
                    prefix: prefix.clone(),
                    delimiter: delimiter.into(),
                    after,
                    entries_max: 1_000,
                };
                let rest: Vec<String> = wanted.into_iter().filter(|entry| !list.is_passed(entry)).collect();
                let found = names(&block_on(case.sal.list(&bucket, &list)).unwrap().entries);
                assert_eq!(found, rest, "{what}");
            }
        }
        case.finish(&[&bucket]);
    }
}
