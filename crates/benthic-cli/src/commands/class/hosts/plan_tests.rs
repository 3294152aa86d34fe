use super::{Action, Plan, Step, install_action, missing_settings, refuse, undo_action, unknown_releases};
use crate::commands::class::hosts::text;
use benthic_ceph::hosts::directory::{Directory, Library, Loaded, Record};
use benthic_ceph::hosts::inventory::{ClassSettings, Host, HostOsd, Inventory, Setting};
use benthic_core::{ErrorKind, Reason};
use serde_json::json;
use std::sync::Arc;

fn setting(value: &str, source: &str) -> Setting {
    Setting { value: value.to_owned(), source: source.to_owned() }
}

fn osd(id: i32, load_list: Setting) -> HostOsd {
    let settings = ClassSettings { class_dir: "/c".to_owned(), load_list, default_list: setting("*", "mon") };
    HostOsd {
        id,
        version: "16.2.15".to_owned(),
        arch: String::new(),
        in_container: false,
        settings: Some(settings),
    }
}

fn inventory(osds: Vec<HostOsd>) -> Inventory {
    Inventory {
        fsid: "f".to_owned(),
        hosts: vec![Host { name: "um".to_owned(), osds }],
        homeless: Vec::new(),
    }
}

fn library() -> Library {
    // e_machine of x86-64.
    Library::new("x_1", [&[0; 18][..], &[0x3e, 0]].concat())
}

fn directory() -> Directory {
    Directory { arch: "x86_64".to_owned(), is_writable: true, free_bytes: 1 << 30, ..Directory::default() }
}

fn plan(steps: Vec<Step>) -> Plan {
    Plan {
        fsid: "f".to_owned(),
        undo: false,
        library: Arc::new(library()),
        steps,
        settings: Vec::new(),
        unknown_releases: Vec::new(),
        reachable: Vec::new(),
        homeless: Vec::new(),
    }
}

#[test]
fn a_directory_takes_the_library_unless_it_has_it_or_cannot() {
    let library = library();
    let kind = |found: &Directory| install_action(found, &library).map_err(|error| error.kind());
    assert_eq!(kind(&directory()), Ok(Action::Install));
    let has = Directory { sha256: Some(library.sha256.clone()), is_writable: false, ..directory() };
    assert_eq!(kind(&has), Ok(Action::Keep), "nothing is written");
    let read_only = Directory { is_writable: false, ..directory() };
    assert_eq!(kind(&read_only), Err(ErrorKind::PermissionDenied));
    let arm = Directory { arch: "aarch64".to_owned(), ..directory() };
    assert_eq!(kind(&arm), Err(ErrorKind::InvalidArgument));
    let full = install_action(&Directory { free_bytes: 1 << 20, ..directory() }, &library).unwrap_err();
    assert_eq!(full.reason(), Some(Reason::StoreFull));
}

#[test]
fn undo_returns_to_the_recorded_library() {
    let record = |old: Option<&str>| Some(Record { new: "new".to_owned(), old: old.map(str::to_owned) });
    let with = |sha256: Option<&str>, record: Option<Record>| {
        let found = Directory { sha256: sha256.map(str::to_owned), record, ..directory() };
        undo_action(&found).map_err(|error| error.kind())
    };
    assert_eq!(with(Some("new"), None), Ok(Action::Nothing));
    assert_eq!(with(Some("new"), record(Some("old"))), Ok(Action::Restore));
    assert_eq!(with(Some("new"), record(None)), Ok(Action::Remove));
    // An interrupted command has not renamed the library yet.
    assert_eq!(with(Some("old"), record(Some("old"))), Ok(Action::Restore));
    assert_eq!(with(Some("other"), record(Some("old"))), Err(ErrorKind::Conflict));
    assert_eq!(with(None, record(Some("old"))), Err(ErrorKind::Conflict));
}

#[test]
fn settings_are_changed_where_they_are_set() {
    let all = vec![
        osd(0, setting("lock rbd", "mon")),
        osd(1, setting("lock rbd", "mon")),
        osd(2, setting("lock", "file")),
        osd(3, setting("lock x_1", "file")),
    ];
    let missing = missing_settings(&inventory(all), "x_1");
    let shown: Vec<_> =
        missing.iter().map(|found| (found.osds.as_slice(), found.command.as_deref())).collect();
    let command = "ceph config set osd osd_class_load_list 'lock rbd x_1 x_2'";
    assert_eq!(shown, [(&[0, 1][..], Some(command)), (&[2][..], None)]);
}

#[test]
fn osds_in_containers_are_refused() {
    let mut contained = osd(1, setting("*", "mon"));
    contained.in_container = true;
    let error = refuse(&inventory(vec![osd(0, setting("*", "mon")), contained])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.context().collect::<Vec<_>>(), [("osds", "osd.1")]);
    assert!(refuse(&inventory(vec![osd(0, setting("*", "mon"))])).is_ok());
    let none = Inventory { fsid: String::new(), hosts: Vec::new(), homeless: vec![0] };
    assert_eq!(refuse(&none).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_plan_for_an_unknown_release_is_made_and_refused() {
    let mut newer = osd(1, setting("*", "mon"));
    newer.version = "99.1.0".to_owned();
    let inventory = inventory(vec![osd(0, setting("*", "mon")), newer]);
    assert!(refuse(&inventory).is_ok());
    let plan = Plan { unknown_releases: unknown_releases(&inventory), ..plan(Vec::new()) };
    assert_eq!(plan.json()["plan"]["unknown_releases"], json!([{ "osd": 1, "ceph": "99.1.0" }]));
    let shown = text::plan(&plan);
    assert!(shown.contains("needs --force for osd.1 (99.1.0)"), "{shown}");
    let error = plan.check_releases().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("--force") && error.to_string().contains("osd=1"), "{error}");
    let known = self::plan(Vec::new());
    assert!(known.check_releases().is_ok() && !text::plan(&known).contains("--force"));
}

#[test]
fn a_plan_names_the_osds_to_restart_and_shows_no_control_characters() {
    let step = |host: &str, action, osd, is_older| Step {
        host: host.to_owned(),
        destination: "d".to_owned(),
        versions: Vec::new(),
        osds: vec![osd],
        down: Vec::new(),
        found: Directory { loaded: vec![Loaded { pid: 1, osd: Some(osd), is_older }], ..directory() },
        action,
    };
    let steps = vec![
        step("a", Action::Install, 0, false),
        step("a", Action::Keep, 1, false),
        step("\u{1b}[2J", Action::Keep, 2, true),
    ];
    let plan = Plan { homeless: vec![7], ..plan(steps) };
    assert_eq!((plan.restarts(), plan.changed_hosts()), (vec![0, 2], 1));
    let shown = text::plan(&plan);
    assert!(!shown.contains('\u{1b}') && shown.contains("restart: osd.0, osd.2 "), "{shown}");
    assert!(shown.contains("never up: osd.7"), "{shown}");
    assert_eq!(plan.json()["plan"]["directories"][2]["older_loaded_by"], json!([2]));
}
