//! GRIB files. `fixtures/make_grib.py` makes them.

use crate::{home, lines, parsed};
use benthic_testkit::program::Home;
use serde_json::{Value, json};

const ERA5: &[u8] = include_bytes!("fixtures/era5.grib");
const FORECAST: &[u8] = include_bytes!("fixtures/forecast.grib2");
const REFUSED: &[u8] = include_bytes!("fixtures/refused.grib2");

fn with_files() -> Home {
    let home = home();
    home.file("era5.grib", ERA5);
    home.file("forecast.grib2", FORECAST);
    home
}

/// Creates the group `climate/GROUP`, and returns it without its first column.
fn create(home: &Home, group: &str, args: &[&str]) -> Vec<String> {
    let address = format!("climate/{group}");
    home.ok(&[&["create", &address][..], args].concat());
    let node = |node: &Value| {
        let path = node["array"].as_str()?.strip_prefix(&address)?.trim_start_matches('/');
        let lens: Vec<String> = node["shape"].as_array()?.iter().map(Value::to_string).collect();
        Some(format!("{path} {} {}", node["dtype"].as_str()?, lens.join("x")))
    };
    home.json(&["ls", &address]).iter().filter_map(node).collect()
}

fn values(home: &Home, args: &[&str]) -> Value {
    parsed(home, args)["values"].take()
}

#[test]
fn messages_become_arrays_with_coordinates() {
    let home = with_files();
    let era5 = create(&home, "grib1", &["--from", "era5.grib", "--reference"]);
    let expected = [
        "isobaricInhPa float64 2",
        "latitude float64 27",
        "longitude float64 40",
        "sst float32 27x40",
        "step float64 ",
        "surface float64 ",
        "t float32 2x2x27x40",
        "time int64 2",
        "time_2 int64 ",
        "valid_time int64 2",
        "valid_time_2 int64 ",
    ];
    assert_eq!(era5, expected);
    let read = |path: &str| values(&home, &["read", &format!("climate/grib1/{path}")]);
    assert_eq!(read("isobaricInhPa"), json!([850.0, 500.0]));
    // 29 February 2024, 00:00 and 06:00.
    assert_eq!(read("time"), json!([1_709_164_800, 1_709_186_400]));
    assert_eq!(read("time_2"), json!(1_709_208_000));
    let longitudes = read("longitude");
    assert_eq!((&longitudes[0], &longitudes[39]), (&json!(-20.0), &json!(77.5)));
    let info = parsed(&home, &["info", "climate/grib1/t"]);
    let attributes = &info["attributes"];
    assert_eq!(attributes["units"], "K");
    assert_eq!(attributes["standard_name"], "air_temperature");
    assert_eq!(attributes["coordinates"], "valid_time step");
    // One of four fields is not in the file, and the sea has no values.
    let count = |path: &str| values(&home, &["reduce", &format!("climate/grib1/{path}"), "count"]);
    assert_eq!(count("t"), json!(3 * 27 * 40));
    assert_eq!(count("sst"), json!(360));
    let missing = ["read", "climate/grib1/t", "--where", "time=2024-02-29T06,isobaricInhPa=500", "--select"];
    let missing = values(&home, &[&missing[..], &["latitude=0:1,longitude=0:2"]].concat());
    assert_eq!(missing, json!([[[["NaN", "NaN"]]]]));

    let forecast = create(&home, "grib2", &["--from", "forecast.grib2", "--reference"]);
    for array in
        ["t2m float32 3x27x40", "step float64 3", "t float32 27x40", "u float32 27x40", "r float32 27x40"]
    {
        assert!(forecast.iter().any(|own| own == array), "{array}: {forecast:?}");
    }
    assert_eq!(values(&home, &["read", "climate/grib2/step"]), json!([0.0, 6.0, 12.0]));

    // One variable has its scalar coordinates, too.
    let one = create(&home, "grib3", &["--from", "era5.grib:sst"]);
    let expected = [
        "latitude float64 27",
        "longitude float64 40",
        "sst float32 27x40",
        "step float64 ",
        "surface float64 ",
        "time_2 int64 ",
        "valid_time_2 int64 ",
    ];
    assert_eq!(one, expected);
}

#[test]
fn values_are_those_of_eccodes_in_the_file_and_in_a_copy() {
    let home = with_files();
    for group in ["grib", "copy"] {
        let reference: &[&str] = if group == "grib" { &["--reference"] } else { &[] };
        create(&home, group, &[&["--from", "forecast.grib2"], reference].concat());
        create(&home, &format!("{group}e"), &[&["--from", "era5.grib"], reference].concat());
        for pushdown in ["never", "always"] {
            let sum = |path: &str| {
                let address = format!("climate/{group}{path}");
                values(&home, &["reduce", &address, "sum", "--pushdown", pushdown])
            };
            // Sums of whole numbers, which `grib_get_data` prints.
            assert_eq!(sum("/t2m"), json!(950_632.0), "{group} {pushdown}");
            assert_eq!(sum("/t"), json!(0.0));
            assert_eq!(sum("/u"), json!(318_071.0));
            assert_eq!(sum("/r"), json!(314_485.0));
            assert_eq!(sum("e/t"), json!(944_383.0));
            assert_eq!(sum("e/sst"), json!(103_926.0));
        }
        // The second row was stored from east to west, from the south.
        let address = format!("climate/{group}/r");
        let rows = values(&home, &["read", &address, "--select", "latitude_2=0:2,longitude=0:3"]);
        assert_eq!(rows, json!([[291.0, 290.0, 289.0], [279.0, 278.0, 278.0]]));
        let info = parsed(&home, &["info", &address]);
        assert_eq!(info["file"].is_null(), group == "copy");
    }
}

#[test]
fn what_arrays_cannot_have_is_refused() {
    let home = with_files();
    home.file("refused.grib2", REFUSED);
    let error = home.fails(7, &["create", "climate/g", "--from", "refused.grib2"]);
    for part in ["JPEG 2000 (grid_jpeg)", "grib_set -r -s packingType=grid_simple"] {
        assert!(error.contains(part), "{error}");
    }
    // A probability, template 4.5.
    let mut probability = FORECAST[..989].to_vec();
    let product = probability.windows(5).position(|window| window == [0, 0, 0, 34, 4]).unwrap();
    probability[product + 8] = 5;
    home.file("probability.grib2", &probability);
    let error = home.fails(7, &["create", "climate/g", "--from", "probability.grib2"]);
    assert!(
        error.contains("its kind of product (template 4.5)") && error.contains("1 field, the"),
        "{error}"
    );
    // One field of a variable is refused, so the variable is. Other bytes before and between
    // messages are not.
    let mut mixed = b"\x01\r\r\n001\r\r\nHTXX80 ECMF 290000\r\r\n".to_vec();
    mixed.extend_from_slice(FORECAST);
    mixed.extend_from_slice(b"\r\r\nother bytes");
    mixed.extend_from_slice(REFUSED);
    home.file("mixed.grib2", &mixed);
    let run = home.run(&["create", "climate/m", "--from", "mixed.grib2", "--reference"]);
    assert!(run.status.success(), "{run:?}");
    let noted = String::from_utf8_lossy(&run.stderr);
    assert!(noted.contains("skipped t: its packing is not supported: JPEG 2000"), "{noted}");
    let listed = lines(&home, &["ls", "climate/m"]);
    assert!(listed.iter().any(|line| line.ends_with("/t2m")), "{listed:?}");
    // A field at the same place as an earlier one.
    home.file("twice.grib", [ERA5, ERA5].concat());
    let run = home.run(&["create", "climate/t", "--from", "twice.grib", "--reference"]);
    let noted = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && noted.contains("skipped t: 3 of its fields"), "{noted}");
    for (name, data) in [
        ("cut", &FORECAST[..FORECAST.len() - 3]),
        ("start", &FORECAST[..12]),
        ("section", &[&REFUSED[..16], &[0; 16], &REFUSED[32..]].concat()[..]),
        ("empty", &[&FORECAST[..8], &[0, 0, 0, 0, 0, 0, 0, 20], b"7777"].concat()),
        ("length", &[&ERA5[..4], &[0, 0, 9], &ERA5[7..]].concat()[..]),
    ] {
        let name = format!("{name}.grib");
        home.file(&name, data);
        let error = home.fails(12, &["create", "climate/g", "--from", &name, "--reference"]);
        assert!(error.contains("GRIB message"), "{error}");
    }
}
