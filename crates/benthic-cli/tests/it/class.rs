//! Creating a class project and installing a library, as far as that works without Ceph.

use crate::support::{Home, printed, tree};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const LIBRARY: &[u8] = b"\x7fELF....\0__cls_init\0....";

#[test]
fn a_new_class_is_a_project_that_names_this_source_tree() {
    let home = Home::bare();
    assert!(home.ok(&["class", "new", "my_digest"]).contains("my_digest/src/lib.rs"));
    let expected = [
        ".cargo/config.toml",
        ".gitignore",
        "Cargo.lock",
        "Cargo.toml",
        "Makefile",
        "README.md",
        "src/lib.rs",
        "src/tests.rs",
    ];
    assert_eq!(tree(&home.path("my_digest")), expected);
    let manifest = String::from_utf8(home.read("my_digest/Cargo.toml")).unwrap();
    let root = fs::canonicalize(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).unwrap();
    assert!(
        manifest.contains(&format!("benthic-core = {{ path = \"{}/crates/benthic-core\" }}", root.display()))
    );
    let code = String::from_utf8(home.read("my_digest/src/lib.rs")).unwrap();
    assert!(code.contains("export!(\"my_digest_1\"") && code.contains("\"my_digest.sum\""), "{code}");
    for file in expected {
        let text = String::from_utf8(home.read(&format!("my_digest/{file}"))).unwrap();
        assert!(["{name}", "{tree}", "{build}"].iter().all(|left| !text.contains(left)), "{file}");
    }
    // An existing empty directory is accepted.
    fs::create_dir(home.path("other")).unwrap();
    assert_eq!(home.json(&["class", "new", "other"])[0]["class"], "other");
}

/// Runs `make test` in a project and returns its output and cargo's.
fn make_test(home: &Home, project: &str) -> String {
    let mut make = Command::new("make");
    make.args(["test", concat!("CARGO=", env!("CARGO"))]).current_dir(home.path(project));
    let run = make.output().unwrap();
    printed(&run, &["make test"]) + &String::from_utf8_lossy(&run.stderr)
}

/// The settings of a section of a manifest.
fn settings<'a>(manifest: &'a str, section: &str) -> Vec<&'a str> {
    let after = manifest.split(&format!("\n[{section}]\n")).nth(1).expect(section);
    after.lines().take_while(|line| !line.starts_with('[')).filter(|line| line.contains(" = ")).collect()
}

#[test]
fn a_class_compiles_nothing_that_was_compiled_before() {
    let home = Home::bare();
    home.ok(&["class", "new", "profiled"]);
    let manifest = String::from_utf8(home.read("profiled/Cargo.toml")).unwrap();
    let ours = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")).unwrap();
    // With another profile than that of Benthic's build, every dependency compiles again.
    for section in ["profile.release", "profile.release.package.\"*\""] {
        assert_eq!(settings(&manifest, section), settings(&ours, section));
    }
    // A name that is a keyword does not clash with the identifiers of the code.
    for (name, is_first) in [("class", true), ("second", false)] {
        home.ok(&["class", "new", name]);
        let test = make_test(&home, name);
        assert!(test.contains("3 passed"), "{test}");
        let compiled: Vec<&str> =
            test.lines().filter_map(|line| line.trim_start().strip_prefix("Compiling ")).collect();
        let only_itself = matches!(compiled[..], [itself] if itself.starts_with("cls_second "));
        assert!(is_first || only_itself, "{compiled:?}");
    }
}

/// The file that a command of the guide writes.
fn file_in_guide<'a>(guide: &'a str, file: &str) -> &'a str {
    let text = guide.split(&format!("cat > {file} <<'END'\n")).nth(1).unwrap();
    text.split("\nEND\n").next().unwrap()
}

#[test]
fn the_counter_and_the_examples_of_the_guide_compile_and_pass_their_tests() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let guide = fs::read_to_string(format!("{root}/docs/guide/classes.md")).unwrap();
    let context = fs::read_to_string(format!("{root}/crates/benthic-core/src/context.rs")).unwrap();
    let rows: Vec<&str> = guide
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains("`") && line.contains("context."))
        .collect();
    let examples: Vec<&str> = rows.iter().map(|row| row.split('`').rev().nth(1).unwrap()).collect();
    let calls: Vec<&str> = context
        .split_once("impl MethodContext<'_> {")
        .unwrap()
        .1
        .lines()
        .filter_map(|line| line.strip_prefix("    pub fn "))
        .map(|rest| rest.split('(').next().unwrap())
        .collect();
    assert!(calls.contains(&"append") && calls.len() == examples.len(), "{calls:?}");
    for call in calls {
        let used = format!("context.{call}(");
        assert_eq!(examples.iter().filter(|example| example.contains(&used)).count(), 1, "{call}");
    }
    let home = Home::bare();
    home.ok(&["class", "new", "counter"]);
    home.file("counter/src/tests.rs", file_in_guide(&guide, "src/tests.rs"));
    let examples = format!(
        "\nuse benthic_core::LogLevel;\n#[allow(unused_variables)]\npub fn examples(context: &mut MethodContext<'_>) -> \
         Result<()> {{\n{}\nOk(())\n}}\n",
        examples.join("\n")
    );
    home.file("counter/src/lib.rs", file_in_guide(&guide, "src/lib.rs").to_owned() + &examples);
    assert!(make_test(&home, "counter").contains("1 passed"));
}

#[test]
fn an_invalid_class_name_creates_nothing() {
    let home = Home::bare();
    for (name, why) in [
        ("lock", "Ceph has"),
        ("digest", "Benthic has"),
        ("mine_1", "the version"),
        ("Mine", "lower-case"),
        ("../mine", "lower-case"),
        ("a-b", "lower-case"),
    ] {
        assert!(home.fails(6, &["class", "new", name]).contains(why), "{name}");
    }
    home.file("mine/notes.txt", "mine");
    home.fails_with("already_exists", &["class", "new", "mine"]);
    assert!(home.fails(6, &["class", "new", "yours", "--benthic", "mine"]).contains("source tree"));
    assert_eq!(tree(&home.path("")), ["mine/notes.txt"]);
}

#[test]
fn only_class_libraries_can_be_installed() {
    let home = Home::bare();
    home.file("libcls_mine_1.so", LIBRARY);
    home.file("libcls_lock.so", LIBRARY);
    home.file("libcls_text_1.so", "#!/bin/sh\n");
    fs::create_dir(home.path("classes")).unwrap();
    let install = |file| home.run(&["class", "install", file, "--class-dir", "classes"]);
    assert!(install("libcls_mine_1.so").status.success());
    assert_eq!(home.read("classes/libcls_mine_1.so"), LIBRARY);
    for file in ["libcls_lock.so", "libcls_text_1.so"] {
        assert_eq!(install(file).status.code(), Some(6), "{file}");
    }
    assert_eq!(install("libcls_none_1.so").status.code(), Some(3));
    assert_eq!(tree(&home.path("classes")), ["libcls_mine_1.so"]);
    assert!(home.fails(2, &["class", "install", "libcls_mine_1.so"]).contains("--cluster"));
    assert!(home.fails(3, &["class", "install", "--class-dir", "classes"]).contains("benthic class new"));
    let none = &["class", "install", "libcls_mine_1.so", "--cluster", "classes"];
    assert!(home.fails(3, none).contains("no cluster here"));
    home.ok(&["class", "new", "other"]);
    let mut unbuilt = home.command(&["class", "install", "--class-dir", "../classes"]);
    let unbuilt = unbuilt.current_dir(home.path("other")).output().unwrap();
    assert!(crate::support::failed(&unbuilt, 3).contains("run `make`"));
}

#[test]
fn a_library_is_not_installed_for_an_unknown_release() {
    let home = Home::bare();
    home.file("libcls_mine_1.so", LIBRARY);
    fs::create_dir(home.path("classes")).unwrap();
    let program = home.file("bin/ceph-osd", "#!/bin/sh\necho 'ceph version 99.1.0 (1) unknown (dev)'\n");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", home.path("bin").display(), std::env::var("PATH").unwrap());
    let install = |more: &[&str]| {
        let args = [&["class", "install", "libcls_mine_1.so", "--class-dir", "classes"], more].concat();
        home.command(&args).env("PATH", &path).output().unwrap()
    };
    let refused = crate::support::failed(&install(&[]), 7);
    assert!(refused.contains("ceph version 99.1.0") && refused.contains("--force"), "{refused}");
    assert!(tree(&home.path("classes")).is_empty());
    assert!(install(&["--force"]).status.success());
    assert_eq!(tree(&home.path("classes")), ["libcls_mine_1.so"]);
}

#[test]
fn commands_find_the_cluster_that_cluster_env_named() {
    let home = Home::bare();
    home.file("libcls_mine_1.so", LIBRARY);
    let marker = r#"{"format":1,"fsid":"0c6a8c1e","mon_port":20000,"osds":1,"complete":true}"#;
    for dir in ["named", "benthic-cluster"] {
        home.file(&format!("{dir}/benthic-cluster.json"), marker);
        home.file(&format!("{dir}/classes/readme"), "");
    }
    let conf = |file: &str| home.path(file).display().to_string();
    let store = |file: &str| format!("ceph:?conf={}", conf(file));
    let install = ["class", "install", "libcls_mine_1.so", "--cluster"];
    let installed = |variables: &[(&str, String)]| {
        let run = home.command(&install).env_remove("CEPH_CONF").envs(variables.iter().cloned()).output();
        printed(&run.unwrap(), &install)
    };
    for variables in [
        vec![("CEPH_CONF", conf("named/ceph.conf"))],
        vec![("BENTHIC_STORE", store("named/ceph.conf"))],
        vec![("CEPH_CONF", conf("benthic-cluster/ceph.conf")), ("BENTHIC_STORE", store("named/ceph.conf"))],
        // In `benthic cluster at SITE -- bash`.
        vec![("CEPH_CONF", conf("named/sites/msu.conf"))],
        vec![("CEPH_CONF", conf("named/ceph.conf")), ("BENTHIC_STORE", "file:data".to_owned())],
    ] {
        assert!(installed(&variables).contains("/named/classes/"), "{variables:?}");
    }
    for variables in [vec![], vec![("CEPH_CONF", "/etc/ceph/ceph.conf".to_owned())]] {
        assert!(installed(&variables).contains("/benthic-cluster/classes/"), "{variables:?}");
    }

    // The other verbs do the same, except for `env` and `up`, which name and create clusters.
    fs::remove_dir_all(home.path("benthic-cluster")).unwrap();
    let named =
        |args: &[&str]| home.command(args).env("CEPH_CONF", conf("named/ceph.conf")).output().unwrap();
    let down = ["cluster", "down"];
    assert!(printed(&named(&down), &down).contains("down already"));
    assert!(printed(&named(&["cluster", "down", "--help"]), &down).contains("/named]"));
    assert!(crate::support::failed(&named(&["cluster", "env"]), 3).contains("no cluster here"));
}

#[test]
fn print_without_a_cluster_shows_the_default_settings() {
    let home = Home::bare();
    home.file("libcls_mine_1.so", LIBRARY);
    let text = home.ok(&["class", "install", "--print", "libcls_mine_1.so"]);
    assert!(text.contains("osd_class_load_list 'cephfs hello journal lock"), "{text}");
    assert!(text.contains(" mine_1 mine_2'") && text.contains("rados-classes/libcls_mine_1.so"), "{text}");
    assert!(!text.contains('*'));
    assert!(!home.path("benthic-data").exists());
}

#[test]
fn print_warns_about_an_unknown_release() {
    let home = Home::bare();
    home.file("libcls_mine_1.so", LIBRARY);
    for (version, is_known) in [("99.1.0", false), ("18.2.7", true)] {
        let answers = format!(
            "#!/bin/sh\ncase \"$*\" in\n\
             *' osd dump') echo '{{\"pools\":[],\"osds\":[{{\"osd\":0,\"up\":1,\"in\":1}}]}}' ;;\n\
             *' config show') echo '{{\"osd_class_dir\":\"/c\",\"osd_class_load_list\":\"lock\",\
             \"osd_class_default_list\":\"lock\"}}' ;;\n\
             *' versions') echo '{{\"osd\":{{\"ceph version {version} (1) name (stable)\":3}}}}' ;;\n\
             esac\n"
        );
        let program = home.file("bin/ceph", answers);
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let path = format!("{}:{}", home.path("bin").display(), std::env::var("PATH").unwrap());
        let args = ["--store", "ceph:", "class", "install", "--print", "libcls_mine_1.so"];
        let run = home.command(&args).env("PATH", path).output().unwrap();
        let warnings = String::from_utf8_lossy(&run.stderr);
        assert!(printed(&run, &args).contains("'lock mine_1 mine_2'"), "{warnings}");
        assert_eq!(warnings.contains(version), !is_known, "{warnings}");
    }
}

#[test]
fn the_embedded_engine_reports_that_it_loads_no_libraries() {
    let home = Home::with_pool();
    home.pipe(&["put", "p/o", "-"], b"data");
    assert!(home.fails(7, &["exec", "p/o", "mydigest", "sum"]).contains("in the OSDs of a Ceph cluster"));
    assert!(home.fails(7, &["class", "ls", "--library", "mydigest_1"]).contains("no Ceph cluster"));
    assert!(home.fails(7, &["class", "log"]).contains("no Ceph cluster"));
}
