use super::{Case, finish, kind, names, put};
use benthic_core::ErrorKind;
use benthic_s3::sal::{Bucket, Delete, Entry, List, ListKind, ListPosition, NewBucket, Versioning, limits};
use futures::executor::block_on;

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
