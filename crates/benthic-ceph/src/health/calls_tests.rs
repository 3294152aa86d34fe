use super::{Answers, FORGET_MS, METHODS_MAX, METRICS, Sums, Tally};
use benthic_core::{ClassCalls, LibraryCalls, MethodCalls};

const HOUR_MS: u64 = 3_600_000;

/// The counters of a process: `calls` and `failures` of method `c.m`, and zeros for `c.other`.
fn process(name: &str, loaded_ms_ago: u64, calls: u64, failures: u64) -> LibraryCalls {
    let method = |name: &str, calls, failures| MethodCalls {
        name: name.to_owned(),
        calls,
        failures,
        busy_us: 1_000 * calls,
        ..MethodCalls::default()
    };
    let methods = vec![method("m", calls, failures), method("other", 0, 0)];
    LibraryCalls {
        library: "l_1".to_owned(),
        build: "1".to_owned(),
        process: name.to_owned(),
        loaded_unix_s: 1,
        loaded_ms_ago,
        classes: vec![ClassCalls { name: "c".to_owned(), version: None, methods }],
    }
}

fn poll(tally: &mut Tally, now_ms: u64, counted: Vec<LibraryCalls>) -> Sums {
    let answers = Answers { library: "l_1".to_owned(), counted, ..Answers::default() };
    tally.add(now_ms / 1_000, now_ms, vec![answers]);
    let sums = tally.sums().remove(0);
    assert_eq!(sums.classes[0].methods[1].sums.calls, 0);
    let [of_class, of_method] = [sums.classes[0].sums, sums.classes[0].methods[0].sums];
    assert_eq!(of_class, of_method);
    let rates = [of_class.calls_per_s, of_class.failures_per_s, of_class.busy_share];
    assert!(rates.iter().flatten().all(|rate| *rate >= 0.0), "{rates:?}");
    of_class
}

#[test]
fn calls_count_from_the_first_poll_in_all_osds() {
    let mut tally = Tally::default();
    let first = poll(&mut tally, 1_000, vec![process("a", HOUR_MS, 500, 50), process("b", HOUR_MS, 7, 0)]);
    assert_eq!(
        (first.calls, first.failures, first.calls_per_s),
        (0, 0, None),
        "calls before the first poll do not count"
    );
    let second = poll(&mut tally, 11_000, vec![process("a", HOUR_MS, 530, 55), process("b", HOUR_MS, 17, 0)]);
    assert_eq!((second.calls, second.failures, second.busy_us), (40, 5, 40_000));
    assert_eq!((second.calls_per_s, second.failures_per_s), (Some(4.0), Some(0.5)));
    assert!((second.busy_share.unwrap() - 0.004).abs() < 1e-9, "{second:?}");
    let third = poll(&mut tally, 21_000, vec![process("a", HOUR_MS, 530, 55), process("b", HOUR_MS, 17, 0)]);
    assert_eq!((third.calls, third.calls_per_s), (40, Some(0.0)));
    assert_eq!((tally.sums()[0].since_unix_s, tally.sums()[0].osds), (1, 2));
}

#[test]
fn a_restart_of_an_osd_lowers_no_sum() {
    let mut tally = Tally::default();
    poll(&mut tally, 0, vec![process("a", HOUR_MS, 100, 0)]);
    assert_eq!(poll(&mut tally, 10_000, vec![process("a", HOUR_MS, 110, 0)]).calls, 10);
    let gone = poll(&mut tally, 20_000, vec![]);
    assert_eq!((gone.calls, gone.calls_per_s), (10, None), "no process answered");
    // The process restarted 15 s ago and has had thirty calls since.
    let back = poll(&mut tally, 30_000, vec![process("a2", 15_000, 30, 3)]);
    assert_eq!((back.calls, back.failures, back.calls_per_s), (40, 3, Some(2.0)));
    let on = poll(&mut tally, 40_000, vec![process("a2", 25_000, 35, 3)]);
    assert_eq!((on.calls, on.calls_per_s), (45, Some(0.5)));
}

#[test]
fn rates_of_a_process_cover_the_time_since_its_last_poll() {
    let mut tally = Tally::default();
    let b = |calls| process("b", HOUR_MS, calls, 0);
    poll(&mut tally, 0, vec![process("a", HOUR_MS, 0, 0), b(0)]);
    poll(&mut tally, 10_000, vec![b(10)]);
    let back = poll(&mut tally, 20_000, vec![process("a", HOUR_MS, 100, 0), b(20)]);
    assert_eq!((back.calls, back.calls_per_s), (120, Some(6.0)), "100 in 20 s and 10 in 10 s");
    // A process that is seen late, but started before the first poll.
    let late = poll(&mut tally, 30_000, vec![process("late", HOUR_MS, 1_000, 0), b(20)]);
    assert_eq!((late.calls, late.calls_per_s), (120, Some(0.0)));
    let late = poll(&mut tally, 40_000, vec![process("late", HOUR_MS, 1_005, 0), b(20)]);
    assert_eq!((late.calls, late.calls_per_s), (125, Some(0.5)));
}

#[test]
fn a_process_is_counted_once_per_poll() {
    let mut tally = Tally::default();
    let [a, b] = ["a", "b"].map(|name| move |calls| process(name, HOUR_MS, calls, 0));
    poll(&mut tally, 0, vec![a(0), b(0)]);
    assert!(tally.covers_all_osds());
    assert_eq!(poll(&mut tally, 10_000, vec![a(10), a(11)]).calls, 10);
    let sums = tally.sums().remove(0);
    assert_eq!((sums.osds, sums.osds_not_seen, tally.covers_all_osds()), (1, 1, false));
    assert_eq!(poll(&mut tally, 20_000, vec![b(5), a(12)]).calls, 17);
    assert!(tally.covers_all_osds());
}

#[test]
fn a_forgotten_process_is_not_counted_again() {
    let mut tally = Tally::default();
    tally.add(0, 0, vec![]);
    assert_eq!(poll(&mut tally, 10_000, vec![process("a", 5_000, 10, 0)]).calls, 10);
    let day = 10_000 + FORGET_MS;
    assert_eq!(poll(&mut tally, day, vec![]).calls, 10);
    assert_eq!(poll(&mut tally, day + 1, vec![process("a", 5_000 + FORGET_MS, 10, 0)]).calls, 10);
}

#[test]
fn osds_that_do_not_count_are_reported() {
    let mut tally = Tally::default();
    assert!(tally.sums().is_empty() && tally.text().is_empty() && tally.covers_all_osds());
    let older = Answers { library: "l_1".to_owned(), osds_not_counting: 3, ..Answers::default() };
    tally.add(0, 0, vec![older.clone()]);
    let sums = tally.sums().remove(0);
    assert_eq!((sums.osds, sums.osds_not_counting, sums.classes.len()), (0, 3, 0));
    assert!(tally.covers_all_osds(), "there is nothing to find");
    assert!(!tally.text().contains("_total"), "{}", tally.text());
    let one =
        Answers { osds_not_counting: 2, counted: vec![process("a", 5, 1, 0)], osds_not_seen: 1, ..older };
    tally.add(10, 10_000, vec![one]);
    let sums = tally.sums().remove(0);
    assert_eq!((sums.osds, sums.osds_not_counting, sums.classes[0].sums.calls), (1, 2, 1));
    // A poll without a library resets the library's number of OSDs and its rates.
    tally.add(20, 20_000, vec![]);
    let sums = tally.sums().remove(0);
    assert_eq!((sums.osds, sums.osds_not_counting, sums.osds_not_seen), (0, 0, 0));
    assert_eq!((sums.classes[0].sums.calls, sums.classes[0].sums.calls_per_s), (1, None));
}

#[test]
fn counters_are_prometheus_text() {
    let mut tally = Tally::default();
    poll(&mut tally, 0, vec![process("a", HOUR_MS, 0, 0)]);
    poll(&mut tally, 10_000, vec![process("a", HOUR_MS, 1_500, 5)]);
    let text = tally.text();
    for metric in &METRICS {
        let kind = if metric.name.ends_with("_total") { "counter" } else { "gauge" };
        assert_eq!(text.matches(&format!("# TYPE {} {kind}\n", metric.name)).count(), 1, "{text}");
    }
    for line in [
        "benthic_class_calls_total{library=\"l_1\",class=\"c\",method=\"m\"} 1500\n",
        "benthic_class_calls_total{library=\"l_1\",class=\"c\",method=\"other\"} 0\n",
        "benthic_class_failures_total{library=\"l_1\",class=\"c\",method=\"m\"} 5\n",
        "benthic_class_busy_seconds_total{library=\"l_1\",class=\"c\",method=\"m\"} 1.5\n",
        "benthic_class_counting_osds{library=\"l_1\"} 1\n",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn an_answer_has_a_limit_of_methods() {
    let mut tally = Tally::default();
    let mut large = process("a", HOUR_MS, 0, 0);
    large.classes[0].methods.extend((0..2 * METHODS_MAX).map(|index| MethodCalls {
        name: format!("x{index}"),
        calls: 1,
        ..MethodCalls::default()
    }));
    for now_ms in [0, 10] {
        poll(&mut tally, now_ms, vec![large.clone()]);
    }
    assert_eq!(tally.sums()[0].classes[0].methods.len(), METHODS_MAX);
}
