use super::{FILE_BYTES_MAX, History, Sample, TIERS, parse, read, write};
use crate::cluster_state::Io;
use crate::health::growth::{READINGS_MAX, Reading};
use crate::health::report::Verdict;
use benthic_core::ErrorKind;
use serde_json::{Value, json};

/// A midnight.
const DAY_0_UNIX_S: u64 = 20_000 * 86_400;
const FSID: &str = "a";

fn sample_with(unix_s: u64, verdict: Verdict, availability_percent: Option<f64>) -> Sample {
    let io = Io { read_bytes_per_s: 1_000, write_bytes_per_s: 10, read_ops_per_s: 4, write_ops_per_s: 2 };
    Sample {
        unix_s,
        verdict,
        availability_percent,
        io: Some(io),
        probe_write_ms: Some(1.5),
        probe_read_ms: None,
    }
}

fn healthy(unix_s: u64) -> Sample {
    sample_with(unix_s, Verdict::Healthy, Some(100.0))
}

/// A column of the rows of a tier.
fn column(history: &History, now_unix_s: u64, tier: &str, name: &str) -> Vec<Value> {
    let all = history.json(now_unix_s);
    let index = all["columns"].as_array().unwrap().iter().position(|column| column == name).unwrap();
    all[tier]["rows"].as_array().unwrap().iter().map(|row| row[index].clone()).collect()
}

#[test]
fn samples_fill_minutes_hours_and_days() {
    let mut history = History::default();
    for step in 0..=8 {
        let bad = (4..6).contains(&step);
        let sample = if bad {
            sample_with(DAY_0_UNIX_S + 15 * step, Verdict::Down, Some(50.0))
        } else {
            healthy(DAY_0_UNIX_S + 15 * step)
        };
        history.add(&sample, 15);
    }
    let now_unix_s = DAY_0_UNIX_S + 120;
    let of = |tier, name| column(&history, now_unix_s, tier, name);
    // The second before the first poll belongs to the previous day.
    assert_eq!(of("minutes", "observed_s"), [json!(1), json!(60), json!(60)]);
    assert_eq!(of("minutes", "down_s"), [json!(0), json!(15), json!(15)]);
    assert_eq!(of("minutes", "availability_percent_mean"), [json!(100.0), json!(87.5), json!(87.5)]);
    assert_eq!(of("days", "observed_s"), [json!(1), json!(120)]);
    assert_eq!(of("days", "availability_percent_min"), [json!(100.0), json!(50.0)]);
    assert_eq!(of("hours", "read_bytes_per_s"), [json!(1_000.0), json!(1_000.0)]);
    assert_eq!(of("hours", "probe_read_ms"), [Value::Null, Value::Null]);
}

#[test]
fn a_gap_between_polls_is_unobserved() {
    let mut history = History::default();
    history.add(&healthy(DAY_0_UNIX_S + 15), 15);
    history.add(&healthy(DAY_0_UNIX_S + 30), 15);
    // The machine sleeps for half a day, then polls fail, then the clock is set back.
    history.add(&healthy(DAY_0_UNIX_S + 43_200), 15);
    history.record_gap();
    history.add(&healthy(DAY_0_UNIX_S + 43_220), 15);
    history.add(&healthy(DAY_0_UNIX_S + 100), 15);
    assert_eq!(column(&history, DAY_0_UNIX_S + 43_220, "days", "observed_s"), [json!(1 + 15 + 1 + 1 + 1)]);
}

#[test]
fn samples_from_before_the_file_was_read_are_merged() {
    let [mut earlier, mut since, mut all] = [History::default(), History::default(), History::default()];
    for step in 0..=20 {
        let sample = if step > 10 {
            Sample { io: None, ..sample_with(DAY_0_UNIX_S + 15 * step, Verdict::Down, None) }
        } else {
            healthy(DAY_0_UNIX_S + 15 * step)
        };
        let run = if step > 10 { &mut since } else { &mut earlier };
        run.add(&sample, 15);
        if step == 11 {
            all.record_gap();
        }
        all.add(&sample, 15);
    }
    since.merge_earlier(earlier);
    assert_eq!(since, all);
    // The next poll belongs to the same run.
    since.add(&healthy(DAY_0_UNIX_S + 315), 15);
    let now_unix_s = DAY_0_UNIX_S + 315;
    let of = |name| column(&since, now_unix_s, "hours", name);
    assert_eq!(of("observed_s"), [json!(1), json!(150 + 1 + 135 + 15)]);
    assert_eq!(of("down_s"), [json!(0), json!(136)]);
    // If the sum exceeds the length of a minute, both runs observed the same time.
    let minute = DAY_0_UNIX_S + 60;
    let [mut one, mut other] = [History::default(), History::default()];
    for history in [&mut one, &mut other] {
        history.add(&healthy(minute), 60);
        history.add(&healthy(minute + 59), 60);
    }
    one.merge_earlier(other);
    assert_eq!(column(&one, minute, "minutes", "observed_s"), [json!(2), json!(59)]);
}

#[test]
fn unknown_values_are_null() {
    let mut history = History::default();
    history.add(&Sample { io: None, ..sample_with(DAY_0_UNIX_S + 5, Verdict::Down, None) }, 15);
    history.add(&Sample { io: None, ..sample_with(DAY_0_UNIX_S + 20, Verdict::Down, Some(f64::NAN)) }, 15);
    let now_unix_s = DAY_0_UNIX_S + 20;
    assert_eq!(column(&history, now_unix_s, "days", "availability_percent_mean"), [Value::Null]);
    assert_eq!(column(&history, now_unix_s, "days", "read_ops_per_s"), [Value::Null]);
    assert_eq!(column(&history, now_unix_s, "days", "down_s"), [json!(16)]);
}

#[test]
fn a_history_stays_bounded_with_wrong_clocks() {
    let mut history = History::default();
    // An hour between polls fills 60 slots of a minute.
    for hour in 0..24 * 100 {
        history.add(&healthy(DAY_0_UNIX_S + 3_600 * hour), 3_600);
    }
    let lens = |history: &History| history.tiers.each_ref().map(Vec::len);
    assert_eq!(lens(&history), TIERS.map(|(_, slots_max, _)| slots_max));
    // The clock is years ahead for a while, then right again.
    let ahead_unix_s = DAY_0_UNIX_S + 20 * 365 * 86_400;
    for minute in 0..600 {
        history.add(&healthy(ahead_unix_s + 60 * minute), 60);
    }
    let now_unix_s = DAY_0_UNIX_S + 100 * 86_400;
    for minute in 0..600 {
        history.add(&healthy(now_unix_s + 60 * minute), 60);
    }
    assert_eq!(lens(&history), TIERS.map(|(_, slots_max, _)| slots_max));
    let days = column(&history, now_unix_s + 600 * 60, "days", "start_unix_s");
    assert!(days.len() > 85 && days.last() == Some(&json!(now_unix_s)), "{days:?}");
    let minutes = column(&history, now_unix_s + 599 * 60, "minutes", "observed_s");
    assert!(minutes.len() >= 359 && minutes.iter().all(|observed_s| *observed_s == 60), "{minutes:?}");
}

fn full() -> (History, Vec<Reading>) {
    let mut history = History::default();
    for hour in 0..24 * 91 {
        history.add(&healthy(DAY_0_UNIX_S + 3_600 * hour), 3_600);
    }
    let reading = |hour: usize| Reading { unix_s: DAY_0_UNIX_S + hour as u64, osd: 1_000, used: 0.25 };
    (history, (0..READINGS_MAX).map(reading).collect())
}

#[test]
fn a_file_round_trips_the_history() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("history");
    assert_eq!(read(&file, FSID).unwrap(), (History::default(), Vec::new()));
    let (history, readings) = full();
    write(&file, FSID, history.clone(), readings.clone()).unwrap();
    let (kept, kept_readings) = read(&file, FSID).unwrap();
    assert_eq!((kept.tiers, kept.last_unix_s, kept_readings), (history.tiers, None, readings));
    let size_bytes = std::fs::metadata(&file).unwrap().len();
    assert!(size_bytes < FILE_BYTES_MAX / 2, "{size_bytes}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file is left");
    assert_eq!(read(&file, "b").unwrap_err().kind(), ErrorKind::InvalidArgument, "of another cluster");
}

#[test]
fn a_file_of_another_kind_is_refused_and_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("notes");
    for (bytes, next) in [
        (&b"milk\n"[..], "move it away"),
        (b"", "move it away"),
        (b"{\"fsid\":\"a\",\"unix_s\":1,\"osd\":1,\"used\":0.5}\n", "move it away"),
        (b"{\"format\":\"benthic status history\",\"version\":2}", "name another file"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let error = read(&file, FSID).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.message().contains(next), "{error}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes);
    }
    assert_eq!(read(dir.path(), FSID).unwrap_err().kind(), ErrorKind::InvalidArgument);
    std::fs::write(&file, vec![b' '; 3 * 1024 * 1024]).unwrap();
    assert_eq!(read(&file, FSID).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

/// Any damage to a file either makes the read fail or leaves a usable history.
#[test]
fn a_damaged_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("history");
    let mut history = History::default();
    history.add(&healthy(DAY_0_UNIX_S + 30), 15);
    write(&file, FSID, history, vec![Reading { unix_s: 1, osd: 1, used: 0.5 }]).unwrap();
    let whole = std::fs::read(&file).unwrap();
    let mut refused = 0;
    for at in 0..whole.len() {
        for change in [b'9', b'-', b'e', b'"', b'}', 0xff, whole[at] ^ 1] {
            let mut bytes = whole.clone();
            bytes[at] = change;
            match parse(&bytes, FSID) {
                Ok((mut history, _)) => {
                    history.add(&healthy(DAY_0_UNIX_S + 45), 15);
                    let _ = history.json(u64::MAX / 2);
                }
                Err(_) => refused += 1,
            }
        }
        assert!(at + 1 == whole.len() || parse(&whole[..at], FSID).is_err(), "{at}");
    }
    assert!(refused > whole.len());
    let nested = "[".repeat(100_000);
    assert!(parse(nested.as_bytes(), FSID).is_err());
    let text = String::from_utf8(whole).unwrap();
    for (good, bad) in [
        ("\"observed_s\":1", "\"observed_s\":4000000000"),
        ("\"mean\":100.0", "\"mean\":1e308"),
        ("\"start_unix_s\":1728000000", "\"start_unix_s\":1728000001"),
        ("\"used\":0.5", "\"used\":5.0"),
    ] {
        assert!(text.contains(good), "{good} is not in {text}");
        assert!(parse(text.replace(good, bad).as_bytes(), FSID).is_err(), "{bad}");
    }
}
