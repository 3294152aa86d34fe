use super::{BUILT_IN, Callee, Library, method_limits, osd_flags};
use benthic_core::{
    Class, ClassRegistry, Error, ErrorKind, FailureReport, GuestMethod, LibraryCalls, LibraryFailures,
    LibraryInfo, Method, MethodFlags, MethodResult, limits,
};
use std::time::Duration;

struct Named(&'static str);

impl Class for Named {
    fn name(&self) -> &'static str {
        self.0
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        ""
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

const fn method(name: &'static str) -> Method {
    Method {
        name,
        flags: MethodFlags::READ,
        run: |_, _| Ok(Vec::new()),
        result: MethodResult::Output,
        summary: "",
        input: "",
        output: "",
        examples: &[],
    }
}

static METHODS: [Method; 2] = [method("first"), method("second")];

fn library() -> Library {
    Library::new("two_1", &ClassRegistry::new().with(Named("b")).with(Named("a"))).unwrap()
}

fn calls(library: &Library) -> LibraryCalls {
    serde_json::from_slice(&BUILT_IN[1].1(library).unwrap()).unwrap()
}

fn counts(library: &Library) -> Vec<(String, String, u64, u64)> {
    let classes = calls(library).classes.into_iter();
    classes
        .flat_map(|class| {
            class.methods.into_iter().map(move |method| {
                assert!(method.calls > 0 || method.busy_us == 0);
                (class.name.clone(), method.name, method.calls, method.failures)
            })
        })
        .collect()
}

#[test]
fn calls_are_counted_even_if_the_method_fails() {
    let library = library();
    let row =
        |class: &str, method: &str, calls, failures| (class.to_owned(), method.to_owned(), calls, failures);
    let none = vec![
        row("a", "first", 0, 0),
        row("a", "second", 0, 0),
        row("b", "first", 0, 0),
        row("b", "second", 0, 0),
    ];
    assert_eq!(counts(&library), none, "all methods are there from the start");
    let second_of_a = library.methods.iter().find(|entry| entry.name == "a.second").unwrap();
    for outcome in [Ok(1), Err(ErrorKind::Busy), Ok(2), Err(ErrorKind::ClassFailed)] {
        second_of_a.count.add(&outcome.map_err(|kind| Error::new(kind, "no")), Duration::ZERO);
    }
    let mut some = none;
    some[1] = row("a", "second", 4, 2);
    assert_eq!(counts(&library), some);
    assert_eq!(calls(&library).classes[0].methods[1].faults, 1, "also a panic is ClassFailed");
}

#[test]
fn busy_time_sums_all_calls() {
    let library = library();
    let first = &library.methods[0];
    let busy_us = || calls(&library).classes[0].methods[0].busy_us;
    for round in 1..=3 {
        first.count.add(&Ok(()), Duration::from_millis(5));
        assert_eq!(busy_us(), round * 5_000);
    }
}

#[test]
fn a_library_reports_its_identity_and_load_time() {
    let (one, other) = (library(), library());
    let info: LibraryInfo = serde_json::from_slice(&BUILT_IN[0].1(&one).unwrap()).unwrap();
    let (reported, of_other) = (calls(&one), calls(&other));
    assert_eq!((&reported.library, &reported.build), (&info.library, &info.build));
    assert_ne!(reported.process, of_other.process, "loaded twice");
    assert_eq!(reported.process, calls(&one).process);
    assert!(reported.loaded_unix_s > 1_700_000_000 && calls(&one).loaded_ms_ago >= reported.loaded_ms_ago);
}

#[test]
fn a_deadline_can_only_become_shorter() {
    let deadline_ms = |value| method_limits(value).deadline_ms;
    assert_eq!(deadline_ms(Some("250")), 250);
    for value in
        [None, Some(""), Some("0"), Some("-1"), Some("1 s"), Some("10001"), Some("99999999999999999999")]
    {
        assert_eq!(deadline_ms(value), limits::METHOD_DEADLINE_MS, "{value:?}");
    }
}

#[test]
fn flags_are_translated_to_those_of_the_osd() {
    assert_eq!(osd_flags(MethodFlags::READ), 1);
    assert_eq!(osd_flags(MethodFlags::WRITE), 2);
    assert_eq!(osd_flags(MethodFlags::READ_WRITE), 3);
}

#[test]
fn a_failure_is_reported_to_the_caller_and_recorded_without_its_values() {
    let library = library();
    let error = Error::new(ErrorKind::Conflict, "the sum differs").with("stored", "secret");
    let failed = library.fail(Callee::of(&library.methods[1], None), "client.4123".to_owned(), &error);
    assert_eq!(failed.errno.0, ErrorKind::Conflict.row().errno);
    let report: FailureReport = serde_json::from_slice(&failed.output).unwrap();
    assert_eq!(report.format, FailureReport::FORMAT);
    assert_eq!(
        (report.kind(), &report.text[..]),
        (Some(ErrorKind::Conflict), "the sum differs stored=secret")
    );
    let recorded: LibraryFailures = serde_json::from_slice(&BUILT_IN[2].1(&library).unwrap()).unwrap();
    assert_eq!(recorded.library, "two_1");
    let [failure] = &recorded.failures[..] else { panic!("{recorded:?}") };
    assert_eq!((&failure.class[..], &failure.method[..], failure.times), ("a", "second", 1));
    assert_eq!((&failure.client[..], &failure.kind[..]), ("client.4123", "conflict"));
    assert_eq!(failure.message, "the sum differs");
    assert!(failure.unix_ms > 1_700_000_000_000);
}

#[test]
fn a_failure_of_a_guest_has_the_guests_name() {
    let library = library();
    let guest =
        GuestMethod { class: "words".to_owned(), version: "ab".to_owned(), method: "count".to_owned() };
    let error = Error::new(ErrorKind::ClassFailed, "it trapped");
    library.fail(Callee::of(&library.methods[0], Some(guest)), "client.1".to_owned(), &error);
    let failure = library.failures().failures.remove(0);
    assert_eq!(
        (&failure.class[..], failure.version.as_deref(), &failure.method[..]),
        ("words", Some("ab"), "count")
    );
}
