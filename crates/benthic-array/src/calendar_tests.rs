use super::{Calendar, DateRange, Period, TimeUnits};

/// Calendar, units, date and number, as cftime 1.6 computes them.
const KNOWN: &[(&str, &str, &str, f64)] = &[
    ("360_day", "days since 1500-03-01", "1582-10-15T00", 29744.0),
    ("all_leap", "hours since 1-1-1 00:00:0.0", "1582-10-04T00", 13894152.0),
    ("julian", "days since 1500-03-01", "2100-12-30T23", 219454.95833333334),
    ("julian", "days since 1850-1-1 06:00:00 +01:30", "1582-10-04T00", -97611.1875),
    ("julian", "days since 1850-1-1 06:00:00 +01:30", "1900-03-01T00", 18321.8125),
    ("julian", "days since 1850-1-1 06:00:00 +01:30", "2100-12-30T23", 91676.77083333333),
    ("julian", "days since 1900-01-01", "1600-02-28T05", -109516.79166666667),
    ("julian", "days since 1900-01-01", "2024-02-28T18", 45349.75),
    ("julian", "hours since 1-1-1 00:00:0.0", "2024-02-28T18", 17735010.0),
    ("julian", "hours since 2000-02-29T00:00:00Z", "1499-12-30T07", -4384457.0),
    ("julian", "hours since 2000-02-29T00:00:00Z", "1600-02-28T05", -3506419.0),
    ("julian", "hours since 2000-02-29T00:00:00Z", "1900-03-01T00", -876576.0),
    ("julian", "minutes since 1970-01-01 12:30:00", "0001-03-01T00", -1035530670.0),
    ("julian", "minutes since 1970-01-01 12:30:00", "1499-12-30T07", -247205130.0),
    ("julian", "seconds since 1582-10-15", "0001-03-01T00", -49912243200.0),
    ("julian", "seconds since 1582-10-15", "1582-10-04T00", -950400.0),
    ("julian", "seconds since 1582-10-15", "1900-03-01T00", 10015660800.0),
    ("julian", "seconds since 1582-10-15", "2100-12-30T23", 16353529200.0),
    ("noleap", "days since 1500-03-01", "0001-03-01T00", -547135.0),
    ("noleap", "days since 1500-03-01", "2024-02-28T18", 191259.75),
    ("noleap", "days since 1500-03-01", "2100-12-30T23", 219304.95833333334),
    ("noleap", "days since 1582-10-04", "2024-02-28T18", 161112.75),
    ("noleap", "days since 1582-10-04", "2100-12-30T23", 189157.95833333334),
    ("noleap", "days since 1850-1-1 06:00:00 +01:30", "0001-03-01T00", -674826.1875),
    ("noleap", "days since 1900-01-01", "0001-03-01T00", -693076.0),
    ("noleap", "hours since 1-1-1 00:00:0.0", "1582-10-15T00", 13856448.0),
    ("noleap", "hours since 1-1-1 00:00:0.0", "1600-02-28T05", 14008637.0),
    ("noleap", "hours since 1-1-1 00:00:0.0", "1900-03-01T00", 16636656.0),
    ("noleap", "minutes since 1970-01-01 12:30:00", "0001-03-01T00", -1034822190.0),
    ("noleap", "minutes since 1970-01-01 12:30:00", "1582-10-15T00", -203520270.0),
    ("noleap", "minutes since 1970-01-01 12:30:00", "2024-02-28T18", 28466250.0),
    ("noleap", "seconds since 1582-10-15", "1499-12-30T07", -2610896400.0),
    ("noleap", "seconds since 1582-10-15", "1600-02-28T05", 547880400.0),
    ("proleptic_gregorian", "days since 1582-10-04", "1582-10-15T00", 11.0),
    ("proleptic_gregorian", "days since 1582-10-04", "1900-03-01T00", 115930.0),
    ("proleptic_gregorian", "days since 1582-10-04", "2100-12-30T23", 189283.95833333334),
    ("proleptic_gregorian", "days since 1850-1-1 06:00:00 +01:30", "1582-10-15T00", -97598.1875),
    ("proleptic_gregorian", "days since 1850-1-1 06:00:00 +01:30", "2024-02-28T18", 63610.5625),
    ("proleptic_gregorian", "days since 1900-01-01", "0001-03-01T00", -693536.0),
    ("proleptic_gregorian", "days since 1900-01-01", "1900-03-01T00", 59.0),
    ("proleptic_gregorian", "days since 1900-01-01", "2024-02-28T18", 45348.75),
    ("proleptic_gregorian", "hours since 2000-02-29T00:00:00Z", "2024-02-28T18", 210378.0),
    ("proleptic_gregorian", "minutes since 1970-01-01 12:30:00", "0001-03-01T00", -1035509070.0),
    ("proleptic_gregorian", "minutes since 1970-01-01 12:30:00", "1582-10-04T00", -203671470.0),
    ("proleptic_gregorian", "seconds since 1582-10-15", "0001-03-01T00", -49911206400.0),
    ("standard", "days since 1582-10-04", "0001-03-01T00", -577677.0),
    ("standard", "days since 1582-10-04", "1499-12-30T07", -30228.708333333332),
    ("standard", "days since 1850-1-1 06:00:00 +01:30", "2024-02-28T18", 63610.5625),
    ("standard", "days since 1850-1-1 06:00:00 +01:30", "2100-12-30T23", 91674.77083333333),
    ("standard", "days since 1900-01-01", "1582-10-15T00", -115860.0),
    ("standard", "days since 1900-01-01", "1600-02-28T05", -109514.79166666667),
    ("standard", "hours since 1-1-1 00:00:0.0", "2024-02-28T18", 17734698.0),
    ("standard", "hours since 2000-02-29T00:00:00Z", "1499-12-30T07", -4384145.0),
    ("standard", "hours since 2000-02-29T00:00:00Z", "1582-10-04T00", -3658656.0),
    ("standard", "hours since 2000-02-29T00:00:00Z", "1582-10-15T00", -3658632.0),
    ("standard", "hours since 2000-02-29T00:00:00Z", "2024-02-28T18", 210378.0),
    ("standard", "minutes since 1970-01-01 12:30:00", "1900-03-01T00", -36732270.0),
    ("standard", "minutes since 1970-01-01 12:30:00", "2024-02-28T18", 28484970.0),
    ("standard", "seconds since 1582-10-15", "1499-12-30T07", -2611846800.0),
    ("standard", "seconds since 1582-10-15", "1582-10-04T00", -86400.0),
];

#[test]
fn dates_have_the_numbers_of_cftime() {
    for (calendar, units, date, number) in KNOWN {
        let context = format!("{calendar} {units} {date}");
        let units = TimeUnits::parse(units, Some(calendar)).unwrap();
        let (start_ms, end_ms) =
            Period::parse(date).unwrap().range_ms(Calendar::from_name(calendar).unwrap()).unwrap();
        assert_eq!(units.time_ms(*number), Some(start_ms), "{context}");
        assert_eq!(end_ms - start_ms, 3_600_000, "{context}");
    }
}

/// Each day follows the one before, over leap years, centuries and the reform of the calendar.
#[test]
fn no_day_is_left_out() {
    for (name, days_in_4_centuries) in [
        ("standard", None),
        ("proleptic_gregorian", Some(146_097)),
        ("julian", Some(146_100)),
        ("noleap", Some(146_000)),
        ("all_leap", Some(146_400)),
        ("360_day", Some(144_000)),
    ] {
        let calendar = Calendar::from_name(name).unwrap();
        let mut days = Vec::new();
        for year in 1500..1900 {
            for month in 1..=12 {
                days.extend((1..=31).filter_map(|day| calendar.days((year, month, day))));
            }
        }
        assert!(days.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{name}");
        // Ten days of 1582 are missing, and three leap days.
        assert_eq!(days.len(), days_in_4_centuries.unwrap_or(146_100 - 10 - 2), "{name}");
    }
}

#[test]
fn dates_stand_for_periods() {
    let lengths = |text: &str| {
        let (start_ms, end_ms) = Period::parse(text).unwrap().range_ms(Calendar::ProlepticGregorian).unwrap();
        (end_ms - start_ms) as f64 / 1000.0
    };
    assert_eq!(lengths("2024-02"), 29.0 * 86_400.0);
    assert_eq!(lengths("2023-12"), 31.0 * 86_400.0);
    assert_eq!(lengths("2024-02-29"), 86_400.0);
    assert_eq!(lengths("2024-02-29 12"), 3_600.0);
    assert_eq!(lengths("2024-02-29T12:30"), 60.0);
    assert_eq!(lengths("2024-02-29T12:30:59"), 1.0);
    assert_eq!(lengths("2024-02-29T12:30:59.25"), 0.001);
    for text in [
        "",
        "2024",
        "2024-",
        "2024-02-",
        "2024-02-01T",
        "2024-02T12",
        "2024-02-01T24x",
        "2024-02-01T12:60",
        "a-b-c",
        "2024-2-3-4",
        "2024-02-01T1:2:3:4",
        "2024-02-01T12:30:5.",
        "2024-02-01T12:30:5.1234567890",
        "-2024-02-01",
        "2024-02-01T12:30:5.+1",
        "１９-01-01",
        "9999999-01-01",
        "2024-02-01T24",
    ] {
        assert_eq!(Period::parse(text), None, "{text}");
    }
    for (calendar, date) in [
        ("noleap", "2024-02-29"),
        ("360_day", "2024-01-31"),
        ("standard", "1582-10-10"),
        ("standard", "0000-01-01"),
        ("julian", "1900-02-30"),
        ("all_leap", "2023-13-01"),
        ("proleptic_gregorian", "2023-04-00"),
    ] {
        assert!(
            Period::parse(date).unwrap().range_ms(Calendar::from_name(calendar).unwrap()).is_err(),
            "{date}"
        );
    }
    assert!(Period::parse("2024-02-30").unwrap().range_ms(Calendar::Days360).is_ok());
}

#[test]
fn ranges_have_one_end_or_both() {
    let shown = |text: &str| DateRange::parse(text).map(|range| range.to_string());
    assert_eq!(shown("2024-01"), Some("2024-01:2024-01".to_owned()));
    for text in ["2024-01-01T10:20:2024-02-01T10:20:30", "2024-01-01T12:", ":2024-01-01T12:30"] {
        assert_eq!(shown(text), Some(text.to_owned()));
    }
    assert_eq!(
        DateRange::parse("2024-01-01T12:30:2024-02").unwrap().first,
        Period::parse("2024-01-01T12:30")
    );
    for text in ["", ":", "::", "2024-01-01:5", "1:2024-01-01", "2024-01-01:2024-01-02:2024-01-03"] {
        assert_eq!(shown(text), None, "{text}");
    }
}

/// Numbers of days are rounded, and hours are not exact in them.
#[test]
fn rounded_numbers_are_the_times_they_stand_for() {
    for reference in ["0001-01-01", "1900-01-01"] {
        let units = TimeUnits::parse(&format!("days since {reference}"), None).unwrap();
        let start = Period::parse("2024-01-01").unwrap().range_ms(Calendar::Standard).unwrap().0;
        let days = (start - units.reference_ms) as f64 / 86_400_000.0;
        for hour in 0..24u8 {
            let time = units.time_ms(days + f64::from(hour) / 24.0);
            assert_eq!(time, Some(start + i64::from(hour) * 3_600_000));
        }
    }
    let units = TimeUnits::parse("nanoseconds since 1970-01-01", None).unwrap();
    assert_eq!(units.time_ms(1.7e18).map(|time| time - units.reference_ms), Some(1_700_000_000_000));
    assert_eq!(units.time_ms(f64::NAN), None);
    assert_eq!(units.time_ms(f64::INFINITY), None);
}

#[test]
fn units_have_many_forms() {
    let of = |units: &str| TimeUnits::parse(units, Some("Proleptic_Gregorian")).ok();
    let noon = of("hours since 2000-01-01 12:00:00").unwrap();
    for units in [
        "Hours since 2000-1-1T12",
        "hr  since  2000-01-01  12:00",
        "h since 2000-01-01T12:00:00Z",
        "hours since 2000-01-01 12:00:00.000 UTC",
        "hours since 2000-01-01 14:30:00 +02:30",
        "hours since 2000-01-01T06:00-0600",
        "hours since 2000-01-01 06:00 -6",
    ] {
        assert_eq!(of(units), Some(noon), "{units}");
    }
    let long = format!("days since 2000-01-01 {}", "0".repeat(1000));
    for units in [
        "",
        "K",
        "days",
        "days since",
        "days after 2000-01-01",
        "lightyears since 2000-01-01",
        "days since 2000-13-01",
        "days since yesterday",
        "days since 2000-01",
        "days since 2000-01-01 CET",
        "days since 2000-01-01 12:00 +25:99",
        &long,
    ] {
        assert_eq!(of(units), None, "{units}");
    }
}
