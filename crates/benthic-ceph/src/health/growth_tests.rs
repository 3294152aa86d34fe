use super::{Growth, READINGS_MAX, Reading, append, growth, read, write};
use benthic_core::ErrorKind;

const HOUR_S: u64 = 3_600;

fn at(hour: u64, used: f64) -> Reading {
    Reading { unix_s: 1_000_000 + hour * HOUR_S, osd: 1, used }
}

#[test]
fn linear_growth_predicts_when_an_osd_is_full() {
    let history = [at(0, 0.50), at(24, 0.51), at(48, 0.52)];
    let Growth::Days(days) = growth(&history, at(72, 0.53), 0.95) else { panic!("it grows") };
    assert!((days - 42.0).abs() < 0.01, "{days}");
    assert_eq!(growth(&history, at(72, 0.40), 0.95), Growth::None);
    assert!(matches!(growth(&history, at(72, 0.99), 0.95), Growth::Days(days) if days == 0.0));
}

#[test]
fn readings_too_close_together_predict_nothing() {
    assert_eq!(growth(&[], at(1, 0.5), 0.95), Growth::Unknown);
    let minute = Reading { unix_s: at(1, 0.4).unix_s - 60, ..at(0, 0.4) };
    assert_eq!(growth(&[minute], at(1, 0.5), 0.95), Growth::Unknown);
    assert_eq!(growth(&[at(9, 0.4)], at(1, 0.5), 0.95), Growth::Unknown, "the clock was set back");
}

#[test]
fn a_file_keeps_a_bounded_history_of_one_cluster() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("history");
    assert_eq!(read(&file, "a").unwrap(), []);
    for hour in 0..READINGS_MAX as u64 + 5 {
        let history = read(&file, "a").unwrap();
        write(&file, "a", &history, at(hour, 0.5)).unwrap();
    }
    let history = read(&file, "a").unwrap();
    assert_eq!((history.len(), history[0]), (READINGS_MAX, at(5, 0.5)));
    let soon = Reading { unix_s: history[READINGS_MAX - 1].unix_s + 60, ..at(0, 0.9) };
    write(&file, "a", &history, soon).unwrap();
    assert_eq!(read(&file, "a").unwrap(), history, "a minute later is no reading of its own");
    assert_eq!(read(&file, "b").unwrap_err().kind(), ErrorKind::InvalidArgument, "of another cluster");
}

#[test]
fn a_file_of_another_kind_is_refused_and_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("notes");
    std::fs::write(&file, "milk\n").unwrap();
    assert_eq!(read(&file, "a").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert_eq!(std::fs::read(&file).unwrap(), b"milk\n");
    assert_eq!(read(dir.path(), "a").unwrap_err().kind(), ErrorKind::InvalidArgument);
    std::fs::write(&file, vec![b'\n'; 2 * 1024 * 1024]).unwrap();
    assert_eq!(read(&file, "a").unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn readings_of_one_run_stay_bounded_and_keep_their_span() {
    let mut history = Vec::new();
    for hour in 0..5_000 {
        append(&mut history, at(hour, 0.5));
    }
    assert!(history.len() <= READINGS_MAX && history[0] == at(0, 0.5));
}
