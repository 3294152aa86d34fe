//! Arrays in files that are stored unchanged. `fixtures/make.py` makes the files.

use crate::{home, lines, parsed};
use benthic_core::{ObjectId, Store, limits};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::program::Home;
use bytes::Bytes;
use futures::executor::block_on;
use serde_json::{Value, json};

const FILES: [(&str, &[u8]); 5] = [
    ("places-old.h5", include_bytes!("fixtures/places-old.h5")),
    ("places-new.h5", include_bytes!("fixtures/places-new.h5")),
    ("records.nc", include_bytes!("fixtures/records.nc")),
    ("nested.nc", include_bytes!("fixtures/nested.nc")),
    ("names.h5", include_bytes!("fixtures/names.h5")),
];

fn with_files() -> Home {
    let home = home();
    for (name, data) in FILES {
        home.file(name, data);
    }
    home
}

fn with_pool<T>(home: &Home, work: impl AsyncFnOnce(&dyn benthic_core::Pool) -> T) -> T {
    let store = EmbeddedStore::open(&home.path("benthic-data"), false, Options::default()).unwrap();
    let pool = block_on(store.open_pool("climate")).unwrap();
    let done = block_on(work(&*pool));
    drop(pool);
    store.close().unwrap();
    done
}

fn get(home: &Home, name: &str) -> Vec<u8> {
    let object = ObjectId::new(name).unwrap();
    with_pool(home, async |pool| pool.read_range(&object, 0, limits::OPERATION_BYTES_MAX).await.unwrap())
        .into()
}

fn put(home: &Home, name: &str, data: Vec<u8>) {
    let object = ObjectId::new(name).unwrap();
    with_pool(home, async |pool| pool.write_full(&object, Bytes::from(data)).await.unwrap());
}

/// The paths of the arrays below a group, and whether each is in a file.
fn arrays(home: &Home, group: &str) -> Vec<(String, bool)> {
    let listed = home.json(&["ls", group]);
    let arrays = listed.iter().filter(|node| node["node"] == "array");
    arrays
        .map(|node| {
            let address = node["array"].as_str().unwrap();
            let path = address.strip_prefix(group).unwrap().trim_start_matches('/').to_owned();
            let is_in_file = !parsed(home, &["info", address])["file"].is_null();
            (path, is_in_file)
        })
        .collect()
}

#[test]
fn arrays_in_a_file_equal_their_copies() {
    let home = with_files();
    for (file, data) in FILES.iter().take(4) {
        let run = home.run(&["create", "climate/f", "--from", file, "--reference", "--overwrite"]);
        assert!(run.status.success(), "{run:?}");
        home.ok(&["create", "climate/c", "--from", file, "--overwrite"]);
        assert_eq!(get(&home, &format!("f/{file}")), *data);
        let copies = arrays(&home, "climate/c");
        let in_place: Vec<(String, bool)> = arrays(&home, "climate/f");
        let paths =
            |arrays: &[(String, bool)]| arrays.iter().map(|array| array.0.clone()).collect::<Vec<_>>();
        assert_eq!(paths(&copies), paths(&in_place));
        let copied: Vec<&str> =
            in_place.iter().filter(|array| !array.1).map(|array| array.0.as_str()).collect();
        let expected: &[&str] = match *file {
            "records.nc" => &["time", "v"],
            "nested.nc" => &["inner/depth", "lat", "short", "t", "time"],
            _ => &["bare", "rounded", "small"],
        };
        assert_eq!(copied, expected, "{file}");
        let noted = String::from_utf8_lossy(&run.stderr);
        for reason in ["copied bare: some of its chunks lack a filter", "copied rounded: its filters are not"]
        {
            assert_eq!(noted.contains(reason), file.starts_with("places"), "{noted}");
        }
        for (path, is_in_file) in &in_place {
            let (theirs, ours) = (format!("climate/c/{path}"), format!("climate/f/{path}"));
            let values = |address: &str, verb: &[&str]| {
                let mut read = parsed(&home, &[&[verb[0], address], &verb[1..]].concat());
                (read["values"].take(), read["stats"]["pushed_chunks"].as_u64().unwrap())
            };
            for verb in [
                &["read", "--raw"][..],
                &["reduce", "mean"],
                &["reduce", "sum", "--over", "0"],
                &["reduce", "argmax"],
            ] {
                let expected = values(&theirs, &[verb, &["--pushdown", "never"]].concat()).0;
                assert_ne!(expected, Value::Null);
                for pushdown in ["never", "always"] {
                    let (found, pushed) = values(&ours, &[verb, &["--pushdown", pushdown]].concat());
                    assert_eq!(found, expected, "{file} {path} {verb:?} {pushdown}");
                    if *is_in_file && path != "none" {
                        assert_eq!(pushed > 0, pushdown == "always", "{path}");
                    }
                }
            }
            let (mut found, mut expected) =
                (parsed(&home, &["info", &ours]), parsed(&home, &["info", &theirs]));
            for field in ["file", "array", "chunk_shape", "codecs"] {
                found[field].take();
                expected[field].take();
            }
            assert_eq!(found, expected);
            home.ok(&["fsck", &ours]);
            home.ok(&["fsck", &ours, "--pushdown", "always"]);
        }
    }
    assert_eq!(lines(&home, &["fsck", "climate/f/t"])[0], "climate/f/t: 1 stored chunk, 0 findings");
}

#[test]
fn one_variable_and_removal() {
    let home = with_files();
    let created = parsed(&home, &["create", "climate/g", "--from", "places-new.h5:sparse", "--reference"]);
    assert_eq!(
        (&created["arrays"], &created["arrays_in_file"], &created["chunks"]),
        (&json!(1), &json!(1), &json!(0))
    );
    assert_eq!(
        created["file"],
        json!({ "object": "g/places-new.h5", "objects": 1, "size_bytes": FILES[1].1.len() })
    );
    assert_eq!(parsed(&home, &["info", "climate/g/sparse"])["file"], "g/places-new.h5");
    assert_eq!(lines(&home, &["fsck", "climate/g/sparse"]), ["climate/g/sparse: 1 stored chunk, 0 findings"]);
    let error = home.fails(7, &["export", "climate/g", "out"]);
    assert!(error.contains("in a stored file"), "{error}");
    assert!(!home.path("out").exists());
    // The group, the array, its index and the file.
    assert_eq!(parsed(&home, &["rm", "climate/g", "--yes", "climate/g"])["objects_removed"], 4);
    assert!(
        home.fails(2, &["create", "climate/g", "--from", "records.nc", "--reference", "--chunks", "1,2"])
            .contains("--chunks")
    );
    // An interrupted creation.
    put(&home, "g/.benthic-create", b"1".to_vec());
    put(&home, "g/records.nc", b"the beginning".to_vec());
    let create = ["create", "climate/g", "--from", "records.nc", "--reference"];
    assert!(home.fails(4, &create).contains("was interrupted"));
    assert_eq!(lines(&home, &["ls", "climate/g"]), [""; 0]);
    home.ok(&[&create[..], &["--overwrite"]].concat());
    assert_eq!(get(&home, "g/records.nc"), FILES[2].1);
    home.ok(&["rm", "climate/g", "--yes", "climate/g"]);
    // The file is cut within the last record.
    home.file("cut.nc", &FILES[2].1[..FILES[2].1.len() - 4500]);
    let error = home.fails(12, &["create", "climate/g", "--from", "cut.nc", "--reference"]);
    assert!(error.contains("file"), "{error}");
    home.file("zarr.json", FILES[2].1);
    let error = home.fails(6, &["create", "climate/g", "--from", "zarr.json", "--reference"]);
    assert!(error.contains("rename it"), "{error}");
}

#[test]
fn damage_is_corrupt() {
    let home = with_files();
    let create = || home.ok(&["create", "climate/f", "--from", "records.nc", "--reference", "--overwrite"]);
    create();
    let (file, index) = (get(&home, "f/records.nc"), get(&home, "f/t/.benthic-chunks"));
    let fails = |message: &str| {
        for pushdown in ["never", "always"] {
            let error = home.fails(12, &["reduce", "climate/f/t", "sum", "--pushdown", pushdown]);
            assert!(error.contains(message), "{error}");
        }
        home.fails(12, &["fsck", "climate/f/t"]);
    };
    let sum = parsed(&home, &["reduce", "climate/f/t", "sum"])["values"].clone();
    put(&home, "f/records.nc", file[..file.len() - 6000].to_vec());
    fails("shorter than the chunks");
    with_pool(&home, async |pool| pool.remove(&ObjectId::new("f/records.nc").unwrap()).await.unwrap());
    fails("the file that has the chunks is missing");
    put(&home, "f/records.nc", file);
    assert_eq!(parsed(&home, &["reduce", "climate/f/t", "sum"])["values"], sum);
    let mut damaged = index.clone();
    damaged[20] ^= 1;
    for damaged in [damaged, index[..index.len() - 1].to_vec(), Vec::new()] {
        put(&home, "f/t/.benthic-chunks", damaged);
        fails("the index of an array in a file is damaged");
    }
    with_pool(&home, async |pool| pool.remove(&ObjectId::new("f/t/.benthic-chunks").unwrap()).await.unwrap());
    fails("is missing");
    create();
    put(&home, "f/t/c/0/0", vec![1]);
    assert_eq!(parsed(&home, &["reduce", "climate/f/t", "sum"])["values"], sum);
    let run = home.run(&["fsck", "climate/f/t"]);
    assert!(String::from_utf8_lossy(&run.stdout).contains("not a chunk of the array"), "{run:?}");
}
