use super::{DatePart, Timestamp};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use std::cmp::Ordering;

fn parsed(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn texts_are_timestamps_with_their_precision_and_offset() {
    for text in [
        "2010T",
        "2010-02T",
        "2010-02-03",
        "2010-02-03T04:05Z",
        "2010-02-03T04:05:06Z",
        "2010-02-03T04:05:06.7+01:30",
        "2010-02-03T04:05:06.123456789-23:59",
        "0001-01-01T00:00-00:00",
        "9999-12-31T23:59:59.999+23:59",
        "2024-02-29",
    ] {
        assert_eq!(parsed(text).text(), text);
    }
    assert_eq!(parsed(" 2010-02-03T ").text(), "2010-02-03");
    assert_eq!(parsed("2010-02-03T04:05").text(), "2010-02-03T04:05-00:00");
    for text in [
        "",
        "T",
        "2010",
        "201T",
        "2010-2T",
        "2010-02",
        "2010-13T",
        "2010-00T",
        "0000T",
        "2010-02-30",
        "2010-02-03T4:05Z",
        "2010T04:05Z",
        "2010-02-03T04",
        "2010-02-03T04:60Z",
        "2010-02-03T24:00Z",
        "2010-02-03T04:05:60Z",
        "2010-02-03T04:05:06.Z",
        "2010-02-03T04:05:06.1234567890Z",
        "2010-02-03T04:05+1:30",
        "2010-02-03T04:05+24:00",
        "2010-02-03T04:05+01:60",
        "2010-02-03T04:05Zx",
        "2010-02-03T04:05 01:30",
        "２０１０T",
        "2010-02-03 04:05",
    ] {
        assert!(Timestamp::parse(text).is_none(), "{text}");
    }
}

#[test]
fn times_beyond_the_year_9999_in_utc_differ() {
    let (one, other) = (parsed("9999-12-31T23:00-02:00"), parsed("9999-12-31T23:30-02:00"));
    assert_eq!((one.compare(&other), other.compare(&one)), (Ordering::Less, Ordering::Greater));
    assert_eq!(one.compare(&parsed("9999-12-31T22:00-03:00")), Ordering::Equal);
    assert_eq!(one.difference(DatePart::Minute, &other), 30);
    assert_eq!(parsed("9999-12-30T23:00-02:00").difference(DatePart::Day, &one), 1);
}

#[test]
fn times_are_compared_at_one_offset() {
    let order = |left: &str, right: &str| parsed(left).compare(&parsed(right));
    assert_eq!(order("2010T", "2010-01-01T00:00Z"), Ordering::Equal);
    assert_eq!(order("2010-01-01T01:00+01:00", "2010-01-01T00:00Z"), Ordering::Equal);
    assert_eq!(order("2010-01-01T00:00-00:01", "2010-01-01T00:00Z"), Ordering::Greater);
    assert_eq!(order("2009-12-31T23:59:59.999Z", "2010T"), Ordering::Less);
}

/// The examples of the S3 user guide, and limits.
#[test]
fn parts_are_added_and_counted() {
    let add = |text: &str, part, quantity| parsed(text).add(part, quantity).map(|sum| sum.text()).unwrap();
    assert_eq!(add("2010-01-01T", DatePart::Year, 5), "2015-01-01");
    assert_eq!(add("2010T", DatePart::Month, 1), "2010-02T");
    assert_eq!(add("2010T", DatePart::Month, 13), "2011-02T");
    assert_eq!(add("2017-01-10T", DatePart::Day, -1), "2017-01-09");
    assert_eq!(add("2017T", DatePart::Hour, 1), "2017-01-01T01:00-00:00");
    assert_eq!(add("2017-01-02T03:04Z", DatePart::Hour, 1), "2017-01-02T04:04Z");
    assert_eq!(add("2017-01-02T03:04:05.006Z", DatePart::Minute, 1), "2017-01-02T03:05:05.006Z");
    assert_eq!(add("2017-01-02T03:04:05.006Z", DatePart::Second, 1), "2017-01-02T03:04:06.006Z");
    assert_eq!(add("2024-01-31", DatePart::Month, 1), "2024-02-29");
    assert_eq!(add("2024-02-29", DatePart::Year, -1), "2023-02-28");
    assert_eq!(add("9998-12-31", DatePart::Day, 365), "9999-12-31");
    for (text, part, quantity) in [
        ("9999T", DatePart::Year, 1),
        ("0001T", DatePart::Day, -1),
        ("2010T", DatePart::Year, i128::MAX),
        ("2010T", DatePart::Month, i128::from(i64::MAX)),
        ("2010T", DatePart::Hour, i128::from(i64::MIN)),
        ("2010T", DatePart::Second, i128::from(i64::MAX)),
    ] {
        assert!(parsed(text).add(part, quantity).is_err(), "{text} {part:?} {quantity}");
    }

    let difference = |part, from: &str, to: &str| parsed(from).difference(part, &parsed(to));
    assert_eq!(difference(DatePart::Year, "2010-01-01T", "2011-01-01T"), 1);
    assert_eq!(difference(DatePart::Month, "2010T", "2010-05T"), 4);
    assert_eq!(difference(DatePart::Month, "2010T", "2011T"), 12);
    assert_eq!(difference(DatePart::Month, "2011T", "2010T"), -12);
    assert_eq!(difference(DatePart::Day, "2010-01-01T23:00", "2010-01-02T01:00"), 0);
    assert_eq!(difference(DatePart::Month, "2010-01-31", "2010-02-28"), 0);
    assert_eq!(difference(DatePart::Month, "2010-02-28", "2010-01-31"), 0);
    assert_eq!(difference(DatePart::Year, "2010-06-15", "2008-06-16"), -1);
    assert_eq!(difference(DatePart::Second, "0001T", "9999-12-31T23:59:59.999Z"), 315_537_897_599);
}

#[test]
fn parts_and_patterns() {
    let time = parsed("2017-01-02T03:04:05+07:08");
    let parts =
        [DatePart::Year, DatePart::Month, DatePart::Day, DatePart::Hour, DatePart::Minute, DatePart::Second];
    assert_eq!(parts.map(|part| time.part(part)), [2017, 1, 2, 3, 4, 5]);
    assert_eq!([DatePart::TimezoneHour, DatePart::TimezoneMinute].map(|part| time.part(part)), [7, 8]);
    assert_eq!(parsed("2017-01-02T03:04-07:08").part(DatePart::TimezoneMinute), -8);

    let format = |text: &str, pattern: &str| parsed(text).format(pattern).unwrap();
    let moon = "1969-07-20T20:18Z";
    assert_eq!(format(moon, "MMMM d, y"), "July 20, 1969");
    assert_eq!(format(moon, "MMM d, yyyy"), "Jul 20, 1969");
    assert_eq!(format(moon, "M-d-yy"), "7-20-69");
    assert_eq!(format(moon, "MM-d-y"), "07-20-1969");
    assert_eq!(format(moon, "MMMM d, y h:m a"), "July 20, 1969 8:18 PM");
    assert_eq!(format(moon, "y-MM-dd'T'H:m:ssX"), "1969-07-20T20:18:00Z");
    assert_eq!(format("1969-07-20T20:18+08:00", "y-MM-dd'T'H:m:ssXXXX"), "1969-07-20T20:18:00+0800");
    assert_eq!(format("1969-07-20T20:18+08:00", "y-MM-dd'T'H:m:ssXXXXX"), "1969-07-20T20:18:00+08:00");
    assert_eq!(format(moon, "x xx xxx X 'o''clock' '' MMMMM"), "+00 +0000 +00:00 Z o'clock ' J");
    assert_eq!(format("1969-07-20T20:18-00:30", "x X XX"), "-0030 -0030 -0030");
    assert_eq!(format("2000-01-01T00:05:06.0789Z", "hh h HH mm s S SSS n"), "12 12 00 05 6 0 078 78900000");
    let code = |pattern: &str| format!("{:?}", moon_error(pattern));
    assert!(code("yyy").contains("EvaluatorInvalidTimestampFormatPatternSymbol"));
    assert!(code("Q").contains("EvaluatorInvalidTimestampFormatPatternSymbol"));
    assert!(code("y 'T").contains("EvaluatorUnterminatedTimestampFormatPatternToken"));
    assert!(code(&"y".repeat(2_000)).contains("EvaluatorInvalidTimestampFormatPattern"));
}

fn moon_error(pattern: &str) -> super::Fault {
    parsed("1969-07-20T20:18Z").format(pattern).unwrap_err()
}

#[test]
fn random_timestamps_keep_their_text_and_their_sums() {
    let mut rng = Rng(seed::one());
    for _ in 0..2_000 {
        let start = parsed("0300-01-01T00:00:00.000Z");
        let time = start.add(DatePart::Second, rng.below(290_000_000_000) as i128).unwrap();
        assert_eq!(parsed(&time.text()).text(), time.text());
        let count = rng.below(10_000) as i128 - 5_000;
        for part in [DatePart::Day, DatePart::Hour, DatePart::Minute, DatePart::Second] {
            let sum = time.add(part, count).unwrap();
            assert_eq!(time.difference(part, &sum), count, "{} {part:?} {count}", time.text());
            assert_eq!(sum.add(part, -count).unwrap().text(), time.text());
        }
        let months = rng.below(2_000) as i128 - 1_000;
        let sum = time.add(DatePart::Month, months).unwrap();
        let whole = time.difference(DatePart::Month, &sum);
        // A day that the month does not have becomes an earlier one.
        let expected = if months > 0 && sum.part(DatePart::Day) < time.part(DatePart::Day) {
            months - 1
        } else {
            months
        };
        assert_eq!(whole, expected, "{} {months}", time.text());
    }
}
