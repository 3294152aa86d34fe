//! Arrays from files, to directories, and removed. `fixtures/make.py` makes the files.

use crate::{home, lines, parsed};
use benthic_core::{ObjectId, Store};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::program::Home;
use futures::executor::block_on;
use serde_json::json;
use std::fs;
use std::process::Command;

const CLASSIC: &[u8] = include_bytes!("fixtures/classic.nc");
const NESTED: &[u8] = include_bytes!("fixtures/nested.nc");
const SCALES: &[u8] = include_bytes!("fixtures/scales.h5");
const NAMES: &[u8] = include_bytes!("fixtures/names.h5");

fn with_files() -> Home {
    let home = home();
    for (name, data) in
        [("classic.nc", CLASSIC), ("nested.nc", NESTED), ("scales.h5", SCALES), ("names.h5", NAMES)]
    {
        home.file(name, data);
    }
    home
}

/// Stores objects in the pool.
fn put(home: &Home, objects: &[(&str, &str)]) {
    let store = EmbeddedStore::open(&home.path("benthic-data"), false, Options::default()).unwrap();
    let pool = block_on(store.open_pool("climate")).unwrap();
    for (name, data) in objects {
        block_on(pool.write_full(&ObjectId::new(*name).unwrap(), data.to_string())).unwrap();
    }
    store.close().unwrap();
}

/// Type, shape and path of the arrays and groups below a group.
fn listed(home: &Home, group: &str) -> Vec<String> {
    let words = |line: String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    lines(home, &["ls", group]).into_iter().map(words).collect()
}

#[test]
fn a_netcdf_file_becomes_a_group() {
    let home = with_files();
    for (file, arrays) in [("classic.nc", 3), ("nested.nc", 5)] {
        let address = format!("climate/{}", &file[..1]);
        let run = home.run(&["create", &address, "--from", file]);
        let (printed, noted) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
        assert!(printed.starts_with(&format!("{address}: {arrays} arrays, {arrays} chunks")), "{printed}");
        assert_eq!(noted, "benthic: warning: skipped name: arrays do not support the type text\n");
        assert_eq!(
            lines(&home, &["read", &format!("{address}/t")]),
            ["10.0 11.0 nan", "12.0 13.0 14.0"],
            "{file}"
        );
        assert_eq!(lines(&home, &["read", &format!("{address}/lat")]), ["30.0 20.0 10.0"]);
        let t = parsed(&home, &["info", &format!("{address}/t")]);
        assert_eq!((&t["dimensions"], &t["dtype"]), (&json!(["time", "lat"]), &json!("int16")));
        assert_eq!((&t["codecs"], &t["fill_value"]), (&json!(["blosc"]), &json!(-1)));
        let attributes = json!({"_FillValue": -1, "scale_factor": 0.5, "add_offset": 10.0, "units": "degC"});
        assert_eq!(t["attributes"], attributes, "{file}");
        assert_eq!(parsed(&home, &["reduce", &format!("{address}/t"), "mean"])["values"], 12.0);
    }
    assert_eq!(
        listed(&home, "climate/n"),
        [
            "group climate/n",
            "group climate/n/inner",
            "float32 (lat=3) climate/n/inner/depth",
            "float32 (lat=3) climate/n/lat",
            "float32 (time=2) climate/n/short",
            "int16 (time=2, lat=3) climate/n/t",
            "float64 (time=2) climate/n/time",
        ]
    );
    // The record that the file lacks is missing.
    assert_eq!(lines(&home, &["read", "climate/n/short"]), ["1.5 nan"]);
    assert_eq!(lines(&home, &["read", "climate/n/short", "--raw"]), ["1.5 -9.0"]);
    assert_eq!(lines(&home, &["read", "climate/n/inner/depth"]), ["1.0 nan 3.0"]);
}

#[test]
fn one_variable_comes_with_its_coordinates() {
    let home = with_files();
    home.ok(&["create", "climate/v", "--from", "nested.nc:/inner/depth", "--codec", "gzip"]);
    assert_eq!(
        listed(&home, "climate/v"),
        ["group climate/v", "float32 (lat=3) climate/v/depth", "float32 (lat=3) climate/v/lat"]
    );
    home.ok(&["create", "climate/w", "--from", "classic.nc:t", "--chunks", "1,2", "--codec", "none"]);
    let t = parsed(&home, &["info", "climate/w/t"]);
    assert_eq!((&t["chunk_shape"], &t["codecs"]), (&json!([1, 2]), &json!([])));
    // The second chunk of the first row has only the fill value.
    assert_eq!(lines(&home, &["fsck", "climate/w/t"]), ["climate/w/t: 3 stored chunks, 0 findings"]);
    assert_eq!(lines(&home, &["read", "climate/w/t"]), ["10.0 11.0 nan", "12.0 13.0 14.0"]);
}

#[test]
fn an_hdf5_file_becomes_a_group() {
    let home = with_files();
    let created = parsed(&home, &["create", "climate/h", "--from", "scales.h5", "--chunks", "2,2"]);
    // Of the chunks of `sparse`, one has other values than the fill value.
    assert_eq!(
        created,
        json!({
            "array": "climate/h", "arrays": 3, "groups": 2, "chunks": 3, "bytes": 100,
            "stored_bytes": created["stored_bytes"],
        })
    );
    assert_eq!(lines(&home, &["read", "climate/h/g/sparse"]), ["7 5 7 7", "7 7 7 7", "7 7 7 7", "7 7 7 7"]);
    assert_eq!(lines(&home, &["read", "climate/h/g/mask"]), ["true false true true"]);
    assert_eq!(parsed(&home, &["info", "climate/h/g/mask"])["dimensions"], json!(["x"]));
    assert_eq!(parsed(&home, &["info", "climate/h/g/sparse"])["dimensions"], json!([null, null]));
}

#[test]
fn a_group_goes_to_a_directory_and_back() {
    let home = with_files();
    home.ok(&["create", "climate/n", "--from", "nested.nc"]);
    let exported = parsed(&home, &["export", "climate/n", "copy.zarr"]);
    // Seven documents and five chunks.
    assert_eq!(exported["objects"], 12);
    assert!(home.read("copy.zarr/t/zarr.json").starts_with(b"{"));
    let created = parsed(&home, &["create", "climate/back", "--from", "copy.zarr"]);
    assert_eq!(
        (&created["arrays"], &created["groups"], &created["chunks"]),
        (&json!(5), &json!(2), &json!(5))
    );
    home.ok(&["export", "climate/back", "again.zarr"]);
    for file in ["zarr.json", "t/zarr.json", "t/c/0/0", "inner/depth/c/0"] {
        assert_eq!(
            home.read(&format!("copy.zarr/{file}")),
            home.read(&format!("again.zarr/{file}")),
            "{file}"
        );
    }
    assert!(home.fails(4, &["export", "climate/n", "copy.zarr"]).contains("is not empty"));
    assert!(home.fails(6, &["export", "climate/n", "benthic-data/x"]).contains("a part of the store"));
    assert!(home.fails(3, &["export", "climate/no", "no.zarr"]).contains("no array or group"));
}

#[test]
fn an_export_stays_in_its_directory() {
    let home = home();
    put(&home, &[("e/../../escaped", "x")]);
    let error = home.fails(6, &["export", "climate/e", "out/e"]);
    assert!(error.contains("not a path inside the destination"), "{error}");
    assert!(!fs::exists(home.path("escaped")).unwrap());
}

#[test]
fn an_interrupted_export_is_no_array() {
    let home = home();
    // The last chunk cannot be a file. All metadata and many chunks are before it in the list of
    // objects.
    let chunks: Vec<String> = (10..40).map(|number| format!("e/zy/c/{number}")).collect();
    let chunks = chunks.iter().map(|name| (&name[..], "x"));
    put(&home, &chunks.chain([("e/zz//1", "x"), ("e/.benthic-create", "1")]).collect::<Vec<_>>());
    home.fails(6, &["export", "climate/e", "out"]);
    assert_eq!(home.read("out/t/c/0/0").len(), 6);
    for name in ["zarr.json", "t/zarr.json", "lat/zarr.json", ".benthic-create"] {
        assert!(!fs::exists(home.path("out").join(name)).unwrap(), "{name}");
    }
    home.ok(&["export", "climate/e/t", "t"]);
    assert!(fs::exists(home.path("t/zarr.json")).unwrap());
}

#[test]
fn an_array_is_replaced_only_on_request() {
    let home = with_files();
    let create = ["create", "climate/e", "--from", "classic.nc"];
    assert!(home.fails(4, &create).contains("a group exists here already; --overwrite removes it first"));
    assert_eq!(lines(&home, &["read", "climate/e/lat", "--raw"]), ["30 20 10"]);
    home.ok(&[&create[..], &["--overwrite"]].concat());
    assert_eq!(lines(&home, &["read", "climate/e/lat"]), ["30.0 20.0 10.0"]);
    // An interrupted creation.
    put(&home, &[("new/.benthic-create", "1"), ("new/t/c/0/0", "x")]);
    let create = ["create", "climate/new", "--from", "classic.nc"];
    assert!(home.fails(4, &create).contains("was interrupted"));
    home.ok(&[&create[..], &["--overwrite"]].concat());
    assert_eq!(lines(&home, &["read", "climate/new/t"]), ["10.0 11.0 nan", "12.0 13.0 14.0"]);
    assert_eq!(lines(&home, &["fsck", "climate/new/t"]), ["climate/new/t: 1 stored chunk, 0 findings"]);
}

#[test]
fn an_array_remains_if_the_new_one_cannot_be_read() {
    let home = with_files();
    // The last part of a classic file is the last record.
    home.file("cut.nc", &CLASSIC[..CLASSIC.len() - 8]);
    home.file("z/zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
    home.file(&format!("z/{}/zarr.json", "x".repeat(200)), "{}");
    let long = format!("climate/e/{}", "y".repeat(1900));
    for (place, from, status) in [
        ("climate/e", "cut.nc", 12),
        ("climate/e", "names.h5:odd/bits", 7),
        ("climate/e", "names.h5", 11),
        (&long, "z", 11),
    ] {
        home.fails(status, &["create", place, "--from", from, "--overwrite"]);
        assert_eq!(lines(&home, &["read", "climate/e/lat", "--raw"]), ["30 20 10"], "{from}");
    }
}

#[test]
fn a_variable_gets_the_nearest_coordinates_with_its_length() {
    let home = with_files();
    let run = home.run(&["create", "climate/g", "--from", "names.h5:/g/air"]);
    assert!(run.status.success(), "{run:?}");
    let noted = String::from_utf8_lossy(&run.stderr);
    assert!(noted.contains("skipped g/air@pair: attributes do not support the type compound"), "{noted}");
    assert_eq!(noted.lines().count(), 1, "{noted}");
    assert_eq!(lines(&home, &["read", "climate/g/lat"]), ["3.0 4.0"]);
    home.ok(&["create", "climate/lat", "--from", "names.h5:g/lat"]);
    assert_eq!(lines(&home, &["read", "climate/lat/lat"]), ["3.0 4.0"]);
    // The group's own `lat` has another length.
    home.ok(&["create", "climate/other", "--from", "names.h5:other/air"]);
    assert_eq!(lines(&home, &["read", "climate/other/lat"]), ["1.0 2.0"]);
}

#[test]
fn unusual_datasets_are_skipped_or_refused() {
    let home = with_files();
    let run = home.run(&["create", "climate/h", "--from", "names.h5"]);
    let noted = String::from_utf8_lossy(&run.stderr);
    assert!(noted.contains("skipped twice/x: another variable or group has the same name"), "{noted}");
    assert!(noted.contains("an array of the file is too large"), "{noted}");
    let nbit = home.fails(7, &["create", "climate/h", "--from", "names.h5:odd/bits", "--overwrite"]);
    assert!(nbit.contains("a filter that is not supported"), "{nbit}");
}

#[test]
fn other_files_in_a_directory_are_not_copied() {
    let home = with_files();
    home.ok(&["export", "climate/e", "e.zarr"]);
    home.file("e.zarr/README.md", "about");
    home.file("e.zarr/t/.DS_Store", "x");
    let pipe = home.path("e.zarr/t/c/9");
    assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
    let run = home.run(&["create", "climate/copy", "--from", "e.zarr"]);
    assert!(run.status.success(), "{run:?}");
    let noted = String::from_utf8_lossy(&run.stderr);
    for name in ["README.md", "t/.DS_Store"] {
        assert!(noted.contains(&format!("skipped {name}: neither metadata nor a chunk")), "{noted}");
    }
    assert!(noted.contains("skipped t/c/9: not a regular file"), "{noted}");
    assert_eq!(parsed(&home, &["rm", "climate/copy", "--yes", "climate/copy"])["objects_removed"], 6);
}

#[test]
fn a_removal_needs_a_confirmation() {
    let home = home();
    let refused = home.fails(2, &["rm", "climate/e"]);
    assert!(refused.contains("2 arrays (e/lat, e/t), 6 objects; add --yes climate/e"), "{refused}");
    assert!(home.fails(2, &["rm", "climate/e", "--yes", "climate/f"]).contains("nothing was deleted"));
    assert!(home.fails(2, &["rm", "climate"]).contains("benthic pool rm"));
    let inside = home.fails(6, &["rm", "climate/e/t/c", "--yes", "climate/e/t/c"]);
    assert!(inside.contains("remove the whole array"), "{inside}");
    home.ok(&["rm", "climate/e/t", "--yes", "climate/e/t"]);
    assert_eq!(listed(&home, "climate"), ["group climate/e", "int16 (lat=3) climate/e/lat"]);
    assert_eq!(parsed(&home, &["rm", "climate/e", "--yes", "climate/e"])["objects_removed"], 3);
    assert!(home.fails(3, &["rm", "climate/e", "--yes", "climate/e"]).contains("no array or group"));
}

#[test]
fn sources_that_cannot_be_used_get_clear_errors() {
    let home = with_files();
    home.file("text.nc", "not a file of numbers");
    home.file("cut.nc", &NESTED[..NESTED.len() / 2]);
    home.file("cut3.nc", &CLASSIC[..CLASSIC.len() / 2]);
    home.file("dir/x", "");
    home.file("z/zarr.json", r#"{"zarr_format": 3, "node_type": "group"}"#);
    for (from, more, status, message) in [
        ("no.nc", &[][..], 3, "no such file"),
        ("text.nc", &[], 12, "not a sound netCDF or HDF5 file"),
        ("cut.nc", &[], 12, "not a sound netCDF or HDF5 file"),
        ("cut3.nc", &[], 12, "not a sound netCDF file"),
        ("dir", &[], 6, "no Zarr directory"),
        ("z", &["--codec", "gzip"], 2, "copied unchanged"),
        ("z", &["--chunks", "4"], 2, "copied unchanged"),
        ("z:t", &[], 2, "use --from z/t"),
        ("classic.nc:x", &[], 3, "no such variable variable=x variables=\"time, lat, t\""),
        ("nested.nc:/inner", &[], 3, "this is a group of the file"),
        ("classic.nc:name", &[], 7, "the type text"),
        ("classic.nc", &["--chunks", "1,2,3"], 6, "no array has as many axes"),
        ("classic.nc", &["--chunks", "0"], 2, "--chunks"),
    ] {
        let error = home.fails(status, &[&["create", "climate/new", "--from", from], more].concat());
        assert!(error.contains(message), "{from}: {error}");
    }
    assert!(home.fails(2, &["create", "climate", "--from", "classic.nc"]).contains("name the group"));
    let inside = home.fails(6, &["create", "climate/e/t/x", "--from", "classic.nc"]);
    assert!(inside.contains("cannot contain another array"), "{inside}");
    assert_eq!(listed(&home, "climate/new"), [""; 0]);
}
