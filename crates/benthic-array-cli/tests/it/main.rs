//! The program as users run it, on an embedded store.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod create;
mod grib;
mod reference;
mod serve;

use benthic_core::{ObjectId, Store};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::program::{Home, check_help};
use futures::executor::block_on;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_benthic-array");

/// A store with a group that has one array of packed temperatures, and its coordinates.
fn home() -> Home {
    let home = Home::new(PROGRAM, &["array"]);
    let store = EmbeddedStore::open(&home.path("benthic-data"), true, Options::default()).unwrap();
    block_on(store.create_pool("climate")).unwrap();
    let pool = block_on(store.open_pool("climate")).unwrap();
    let put = |name: &str, data: Vec<u8>| {
        block_on(pool.write_full(&ObjectId::new(name).unwrap(), data)).unwrap();
    };
    let array = |shape: Value, chunks: Value, data_type: &str, dimensions: Value, attributes: Value| {
        let document = json!({
            "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": data_type, "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
            "chunk_key_encoding": "default", "codecs": ["bytes"], "attributes": attributes,
            "dimension_names": dimensions,
        });
        document.to_string().into_bytes()
    };
    let int16 = |numbers: &[i16]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    put("e/zarr.json", json!({"zarr_format": 3, "node_type": "group"}).to_string().into());
    let packed = json!({"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -1, "units": "degC"});
    put("e/t/zarr.json", array(json!([2, 3]), json!([1, 3]), "int16", json!(["time", "lat"]), packed));
    put("e/t/c/0/0", int16(&[0, 2, -1]));
    put("e/t/c/1/0", int16(&[4, 6, 8]));
    put("e/lat/zarr.json", array(json!([3]), json!([3]), "int16", json!(["lat"]), json!({})));
    put("e/lat/c/0", int16(&[30, 20, 10]));
    store.close().unwrap();
    home
}

fn lines(home: &Home, args: &[&str]) -> Vec<String> {
    home.ok(args).lines().map(str::to_owned).collect()
}

fn parsed(home: &Home, args: &[&str]) -> Value {
    home.json(args).remove(0)
}

#[test]
fn every_verb_has_help_with_examples() {
    check_help(PROGRAM, &["benthic", "array"], &[]);
}

#[test]
fn arrays_are_listed_and_described() {
    let home = home();
    let listed = lines(&home, &["ls", "climate"]);
    let words: Vec<Vec<&str>> = listed.iter().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        words,
        [
            vec!["group", "climate/e"],
            vec!["int16", "(lat=3)", "climate/e/lat"],
            vec!["int16", "(time=2,", "lat=3)", "climate/e/t"],
        ]
    );
    let info = lines(&home, &["info", "climate/e/t"]).join("\n");
    for part in ["Zarr v3", "(time=2, lat=3)", "[1, 3]", "units", "degC"] {
        assert!(info.contains(part), "{info}");
    }
    assert_eq!(parsed(&home, &["info", "climate/e/t"])["attributes"]["units"], "degC");
}

#[test]
fn parts_are_read_by_position_and_by_coordinate() {
    let home = home();
    assert_eq!(lines(&home, &["read", "climate/e/t"]), ["10.0 11.0 nan", "12.0 13.0 14.0"]);
    assert_eq!(lines(&home, &["read", "climate/e/t", "--raw", "--select", "time=-1,lat=0::2"]), ["4 8"]);
    assert_eq!(
        lines(&home, &["read", "climate/e/t", "--where", "lat=10:20", "--select", "time=1"]),
        ["13.0 14.0"]
    );
    let read = parsed(&home, &["read", "climate/e/t", "--where", "lat=:15"]);
    assert_eq!(read["values"], json!([["NaN"], [14.0]]));
    assert_eq!(read["stats"]["chunks"], 2);
    assert_eq!(lines(&home, &["read", "climate/e/t", "--out", "t.npy"]), ["t.npy: 6 values"]);
    assert!(home.read("t.npy").starts_with(b"\x93NUMPY"));
}

#[test]
fn reductions_give_the_same_result_wherever_they_run() {
    let home = home();
    // In an embedded store, auto means never.
    for pushdown in ["always", "never"] {
        let reduce = |args: &[&str]| {
            lines(&home, &[&["reduce", "climate/e/t"], args, &["--pushdown", pushdown]].concat()).join("|")
        };
        assert_eq!(reduce(&["mean"]), "12.0");
        assert_eq!(reduce(&["mean", "--over", "time"]), "11.0 12.0 14.0");
        assert_eq!(reduce(&["mean", "--over", "time", "--keep-nan"]), "11.0 12.0 nan");
        assert_eq!(reduce(&["count", "--over", "lat"]), "2 3");
        assert_eq!(reduce(&["max", "--raw", "--over", "1"]), "2 8");
        assert_eq!(reduce(&["var", "--ddof", "1"]), "2.5");
        assert_eq!(reduce(&["argmax"]), "5");
        assert_eq!(reduce(&["histogram", "--edges", "-5,12,20"]), "2 3");
        assert_eq!(reduce(&["max", "--coarsen", "lat=2"]), "11.0 nan|13.0 14.0");
        assert_eq!(reduce(&["sum", "--coarsen", "lat=2", "--over", "time"]), "46.0 14.0");
        assert_eq!(reduce(&["sum", "--raw", "--coarsen", "lat=9,time=2"]), "19");
        assert_eq!(reduce(&["count", "--values", "11:13"]), "3");
        assert_eq!(reduce(&["median"]), "12.0");
        assert_eq!(reduce(&["median", "--over", "time", "--keep-nan"]), "11.0 12.0 nan");
        assert_eq!(reduce(&["quantile", "--q", "0,0.125,1", "--raw"]), "-1.0 -0.375 8.0");
        assert_eq!(reduce(&["quantile", "--q", "0,1", "--over", "lat"]), "10.0 11.0|12.0 14.0");
        assert_eq!(reduce(&["quantile", "--q", "0.5", "--coarsen", "lat=2", "--over", "time"]), "11.5 14.0");
        assert_eq!(reduce(&["min", "--values", "12.5:", "--over", "time"]), "nan 13.0 14.0");
    }
    let reduced = parsed(&home, &["reduce", "climate/e/t", "sum", "--pushdown", "always"]);
    assert_eq!((&reduced["values"], &reduced["stats"]["pushed_chunks"]), (&json!(60.0), &json!(2)));
}

#[test]
fn arrays_are_regridded_with_weights_of_files() {
    let home = home();
    let files: [(&str, &[u8]); 4] = [
        ("esmf.nc", include_bytes!("fixtures/esmf.nc")),
        ("xesmf.nc", include_bytes!("fixtures/xesmf.nc")),
        ("cdo.nc", include_bytes!("fixtures/cdo.nc")),
        ("second-order.nc", include_bytes!("fixtures/second-order.nc")),
    ];
    for (name, file) in files {
        home.file(name, file);
    }
    for pushdown in ["always", "never"] {
        let regrid = |args: &[&str]| {
            lines(&home, &[&["regrid", "climate/e/t", "--pushdown", pushdown, "--weights"], args].concat())
                .join("|")
        };
        assert_eq!(regrid(&["esmf.nc"]), "10.5 nan|12.5 13.75");
        assert_eq!(regrid(&["esmf.nc", "--skip-missing"]), "10.5 11.0|12.5 13.75");
        assert_eq!(regrid(&["esmf.nc", "--skip-missing=0.5"]), "10.5 nan|12.5 13.75");
        assert_eq!(regrid(&["esmf.nc", "--select", "time=1", "--raw"]), "5.0 7.5");
        assert_eq!(regrid(&["xesmf.nc", "--shape", "2"]), "10.5 13.75");
        assert_eq!(regrid(&["cdo.nc"]), "11.0");
    }
    let regridded = parsed(&home, &["regrid", "climate/e/t", "--weights", "cdo.nc", "--pushdown", "always"]);
    assert_eq!(
        (&regridded["shape"], &regridded["dtype"], &regridded["stats"]["pushed_chunks"]),
        (&json!([1, 1]), &json!("float64"), &json!(2))
    );
    for (args, message) in [
        (&["xesmf.nc"][..], "--shape"),
        (&["esmf.nc", "--shape", "3"], "another shape"),
        (&["second-order.nc"], "first order"),
        (&["xesmf.nc", "--shape", "1"], "variable=row number=2 cells=1"),
        (&["esmf.nc", "--where", "lat=:15"], "selected positions"),
        (&["esmf.nc", "--skip-missing=2"], "from 0 to 1"),
    ] {
        let error = home.fails(6, &[&["regrid", "climate/e/t", "--weights"], args].concat());
        assert!(error.contains(message), "{args:?}: {error}");
    }

    let metadata = json!({
        "zarr_format": 3, "node_type": "array", "shape": [65_536, 65_536], "data_type": "float64", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [256, 256]}}, "codecs": ["bytes"],
        "chunk_key_encoding": {"name": "v2"},
    });
    let store = EmbeddedStore::open(&home.path("benthic-data"), false, Options::default()).unwrap();
    let pool = block_on(store.open_pool("climate")).unwrap();
    let id = ObjectId::new("large/zarr.json").unwrap();
    block_on(pool.write_full(&id, metadata.to_string().into_bytes())).unwrap();
    let error = home.fails(6, &["regrid", "climate/large", "--weights", "xesmf.nc", "--shape", "2"]);
    assert!(error.contains("2^32 cells"), "{error}");
}

#[test]
fn dates_select_times() {
    let home = home();
    let store = EmbeddedStore::open(&home.path("benthic-data"), false, Options::default()).unwrap();
    let pool = block_on(store.open_pool("climate")).unwrap();
    // Every 12 hours from 2001-02-27 on, in a calendar in which each month has 30 days.
    let attributes = json!({"units": "hours since 2001-01-01 00:00:00", "calendar": "360_day"});
    for (name, attributes) in [("time", attributes), ("v", json!({}))] {
        let metadata = json!({
            "zarr_format": 3, "node_type": "array", "shape": [10], "data_type": "float64", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [10]}}, "codecs": ["bytes"],
            "chunk_key_encoding": {"name": "v2"}, "dimension_names": ["time"], "attributes": attributes,
        });
        let start = if name == "time" { 56.0 * 24.0 } else { 0.0 };
        let step = if name == "time" { 12.0 } else { 1.0 };
        let numbers: Vec<u8> =
            (0..10).flat_map(|index| (start + f64::from(index) * step).to_le_bytes()).collect();
        for (key, data) in [("zarr.json", metadata.to_string().into_bytes()), ("0", numbers)] {
            block_on(pool.write_full(&ObjectId::new(format!("d/{name}/{key}")).unwrap(), data)).unwrap();
        }
    }
    store.close().unwrap();
    let read =
        |range: &str| lines(&home, &["read", "climate/d/v", "--where", &format!("time={range}")]).join("|");
    assert_eq!(read("2001-02-28:2001-02-30"), "2.0 3.0 4.0 5.0 6.0 7.0");
    assert_eq!(read("2001-02-28T12:2001-02-29T11:59"), "3.0 4.0");
    assert_eq!(read("2001-03"), "8.0 9.0");
    assert_eq!(read(":2001-02-27 00:00"), "0.0");
    assert_eq!(read("1400:"), "5.0 6.0 7.0 8.0 9.0");
    for (args, status, message) in [
        ("time=2001-02-31", 6, "calendar=360_day"),
        ("time=2002-01-01:", 3, "hours since 2001-01-01 00:00:00"),
        ("time=2001-02-01:5", 2, "numbers or dates"),
    ] {
        let error = home.fails(status, &["read", "climate/d/v", "--where", args]);
        assert!(error.contains(message), "{args}: {error}");
    }
    let error = home.fails(6, &["read", "climate/e/t", "--where", "lat=2001-01-01:"]);
    assert!(error.contains("dates select nothing"), "{error}");
}

#[test]
fn statistics_skip_chunks() {
    let home = home();
    let reduce = |stats: Value| {
        let reduced = parsed(&home, &["reduce", "climate/e/t", "count", "--values", "12:20"]);
        assert_eq!(reduced["stats"]["pruned_chunks"], stats);
        reduced["values"].clone()
    };
    assert_eq!(reduce(json!(0)), 3);
    // Counts chunks, not the missing value of the first one.
    assert_eq!(lines(&home, &["index", "climate/e/t"]), ["climate/e/t: 2 stored chunks, 2 computed"]);
    assert_eq!(parsed(&home, &["index", "climate/e/t"])["computed_chunks"], 0);
    assert_eq!(reduce(json!(1)), 3);
    let output = home.run(&["reduce", "climate/e/t", "max", "--values", ":9", "--stats"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("2 skipped"));
    assert_eq!(lines(&home, &["fsck", "climate/e/t"]), ["climate/e/t: 2 stored chunks, 0 findings"]);
    // A writer that knows nothing of statistics.
    let store = EmbeddedStore::open(&home.path("benthic-data"), false, Options::default()).unwrap();
    let pool = block_on(store.open_pool("climate")).unwrap();
    let data: Vec<u8> = [4i16, 6, 8].iter().flat_map(|number| number.to_le_bytes()).collect();
    block_on(pool.write_full(&ObjectId::new("e/t/c/0/0").unwrap(), data)).unwrap();
    store.close().unwrap();
    assert_eq!(reduce(json!(0)), 6);
    home.ok(&["export", "climate/e", "copy"]);
    assert!(home.path("copy/t/c/0/0").exists() && !home.path("copy/t/.benthic-statistics").exists());
    home.ok(&["rm", "climate/e/t", "--yes", "climate/e/t"]);
    assert_eq!(lines(&home, &["ls", "climate"]).len(), 2);
}

#[test]
fn a_mask_is_another_array() {
    let home = home();
    // Coordinates are numbers, too: 30, 20 and 10.
    let reduce = |kind: &str, values: &[&str]| {
        let args = [&["reduce", "climate/e/t", kind, "--mask", "climate/e/lat"], values].concat();
        parsed(&home, &args)["values"].clone()
    };
    assert_eq!(reduce("count", &[]), 5, "no coordinate is 0");
    assert_eq!(reduce("max", &["--mask-values", "15:30"]), 13.0);
    assert_eq!(reduce("count", &["--mask-values", "10", "--over", "time"]), json!([0, 0, 1]));
    assert_eq!(reduce("sum", &["--mask-values", "99:"]), 0.0);
    assert_eq!(reduce("sum", &["--mask-values", "20", "--select", "time=1,lat=1:"]), 13.0);
    assert_eq!(reduce("sum", &["--mask-values", "20", "--raw"]), 8.0, "2 and 6, as floats");
    let error = home.fails(3, &["reduce", "climate/e/lat", "sum", "--mask", "climate/e/t"]);
    assert!(error.contains("no such dimension") && error.contains("mask=climate/e/t"), "{error}");
    let error = home.fails(2, &["reduce", "climate/e/t", "sum", "--mask-values", "1"]);
    assert!(error.contains("--mask <ARRAY>"), "{error}");
}

#[test]
fn a_picture_is_printed_and_saved() {
    let home = home();
    let printed = lines(&home, &["plot", "climate/e/t", "--colors", "greys"]);
    // The two rows share a line, and the missing value has only the lower half.
    assert_eq!((printed[0].matches('▀').count(), printed[0].matches('▄').count()), (2, 1), "{printed:?}");
    assert_eq!(printed[1], "climate/e/t: 2 × 3 means of 1 × 1 values, with colors from 10 to 14 degC");
    let drawn = parsed(&home, &["plot", "climate/e/t", "--out", "t.png", "--pixels", "16", "--range", ":12"]);
    assert_eq!((&drawn["rows"], &drawn["min"], &drawn["max"]), (&json!(2), &json!(10.0), &json!(12.0)));
    let file = home.read("t.png");
    assert!(file.starts_with(b"\x89PNG"));
    // Five pixels for each value: 15 by 10.
    assert_eq!(file[16..24], [0, 0, 0, 15, 0, 0, 0, 10]);
    // Latitudes decrease, so their table goes down; coordinates that increase go up.
    let store = EmbeddedStore::open(&home.path("benthic-data"), false, Options::default()).unwrap();
    let pool = block_on(store.open_pool("climate")).unwrap();
    for (name, len, dimensions, data) in
        [("up", json!([2, 1]), json!(["x", "y"]), [1, 2]), ("x", json!([2]), json!(["x"]), [5, 6])]
    {
        let metadata = json!({
            "zarr_format": 3, "node_type": "array", "shape": len, "data_type": "uint8", "fill_value": 0,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": len}}, "codecs": ["bytes"],
            "chunk_key_encoding": {"name": "v2"}, "dimension_names": dimensions,
        });
        let key = if name == "up" { "0.0" } else { "0" };
        for (key, data) in [("zarr.json", metadata.to_string().into_bytes()), (key, data.to_vec())] {
            block_on(pool.write_full(&ObjectId::new(format!("u/{name}/{key}")).unwrap(), data)).unwrap();
        }
    }
    store.close().unwrap();
    let up = lines(&home, &["plot", "climate/u/up", "--colors", "greys"]);
    assert!(up[0].starts_with("\u{1b}[38;2;0;0;0;48;2;255;255;255m▀"), "{up:?}");
    // A picture of one row has one line.
    let row = lines(&home, &["plot", "climate/e/t", "--select", "time=0:1", "--raw"]);
    assert_eq!(row[0].matches('▀').count(), 3, "{row:?}");
}

#[test]
fn a_check_reports_damage() {
    let home = home();
    assert_eq!(lines(&home, &["fsck", "climate/e/t"]), ["climate/e/t: 2 stored chunks, 0 findings"]);
    let store = EmbeddedStore::open(&home.path("benthic-data"), false, Options::default()).unwrap();
    let pool = block_on(store.open_pool("climate")).unwrap();
    for name in ["e/t/c/1/0", "e/t/c/7/7"] {
        block_on(pool.write_full(&ObjectId::new(name).unwrap(), "short")).unwrap();
    }
    store.close().unwrap();
    let output = home.run(&["fsck", "climate/e/t"]);
    assert_eq!(output.status.code(), Some(12));
    assert!(String::from_utf8_lossy(&output.stdout).contains("e/t/c/1/0"));
    assert!(home.fails(12, &["fsck", "climate/e/t"]).contains("damaged or stray"));
    assert!(String::from_utf8_lossy(&output.stdout).contains("object=e/t/c/7/7"));
    assert!(home.fails(12, &["reduce", "climate/e/t", "sum"]).contains("wrong decoded size"));
}

#[test]
fn mistakes_get_clear_errors() {
    let home = home();
    for (args, status, message) in [
        (&["info", "climate/e/x"][..], 3, "benthic array ls"),
        (&["info", "climate/e"], 6, "this is a group"),
        (&["info", "climate//t"], 2, "has an empty part"),
        (&["reduce", "climate/e/t", "mean", "--over", "height"], 3, "dimensions=time,lat"),
        (&["reduce", "climate/e/t", "mean", "--where", "time=0:1"], 3, "select positions instead"),
        (&["reduce", "climate/e/t", "mean", "--where", "lat=40:50"], 3, "coordinates=10..30"),
        (&["read", "climate/e/t", "--select", "lat=7"], 6, "outside the dimension"),
        (&["read", "climate/e/t", "--select", "lat=0,lat=1"], 6, "selected twice"),
        (&["read", "climate/e/t", "--select", "lat"], 2, "DIM=START:STOP"),
        (&["reduce", "climate/e/t", "histogram"], 6, "--edges"),
        (&["reduce", "climate/e/t", "quantile"], 6, "quantile needs --q"),
        (&["reduce", "climate/e/t", "median", "--q", "0.5"], 6, "no other reduction takes it"),
        (&["reduce", "climate/e/t", "quantile", "--q", "1.5"], 6, "from 0 to 1"),
        (&["reduce", "climate/e/t", "sum", "--coarsen", "lat=0"], 2, "--coarsen takes DIM=N"),
        (&["reduce", "climate/e/t", "sum", "--coarsen", "lat=2", "--over", "lat"], 6, "reduced twice"),
        (&["reduce", "climate/e/t", "argmax", "--coarsen", "lat=2"], 6, "cannot be grouped"),
        (&["reduce", "climate/e/t", "sum", "--values", "3:1"], 2, "a range is MIN:MAX"),
        (&["reduce", "climate/e/t", "sum", "--values", ":"], 2, "one end may be left out"),
        (&["reduce", "climate/e/t", "sum", "--values", ""], 2, "one end may be left out"),
        (&["reduce", "climate/e/t", "sum", "--where", "lat="], 2, "one end may be left out"),
        (&["plot", "climate/e/lat"], 6, "a picture needs two dimensions"),
        (&["plot", "climate/e/t", "--select", "time=0:0"], 6, "the selection is empty"),
        (&["plot", "climate/e/t", "--values", "90:"], 6, "all selected values are missing"),
        (&["plot", "climate/e/t", "--json"], 6, "--out FILE.png"),
        (&["reduce", "climate/e/t", "min", "--raw", "--select", "time=0:0"], 6, "no value to take"),
    ] {
        let error = home.fails(status, args);
        assert!(error.contains(message), "{args:?}: {error}");
    }
}
