use super::{Directory, Ended, Library, Loaded, Record, SCRIPT, check_path, failure, shell_word};
use benthic_core::{ErrorKind, Reason};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

/// Runs the script here, with these arguments and this input, as a host would.
fn run(args: [&str; 6], input: &[u8]) -> Output {
    let mut child = Command::new("sh")
        .args(["-c", &format!("set -- {}\n{SCRIPT}", args.map(shell_word).join(" "))])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The script ends early if it refuses.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

/// The directory after a successful run.
#[track_caller]
fn state(output: &Output) -> Directory {
    assert!(output.status.success(), "{output:?}");
    // Other programs write to the disk, too.
    Directory { free_bytes: 1, ..Directory::parse(&String::from_utf8_lossy(&output.stdout)).unwrap() }
}

/// The error of a failed run.
#[track_caller]
fn refused(output: &Output) -> benthic_core::Error {
    let ended = Ended {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr_line: String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned(),
    };
    failure(output.status.code().unwrap(), &ended)
}

/// A directory of libraries with a name that is hard to quote.
struct Classes(tempfile::TempDir);

impl Classes {
    fn new() -> Classes {
        let classes = Classes(tempfile::tempdir().unwrap());
        fs::create_dir(classes.path()).unwrap();
        classes
    }

    fn path(&self) -> String {
        self.0.path().join("a 'b' $(touch c) -d").display().to_string()
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn content(&self) -> Vec<u8> {
        fs::read(Path::new(&self.path()).join("libcls_x_1.so")).unwrap()
    }

    fn inspect(&self) -> Directory {
        state(&run(["inspect", &self.path(), "libcls_x_1.so", "none", "none", "0"], &[]))
    }

    fn install_over(&self, old: Option<&str>, library: &Library, input: &[u8]) -> Output {
        let size = library.content.len().to_string();
        let old = old.unwrap_or("none");
        run(["install", &self.path(), "libcls_x_1.so", &library.sha256, old, &size], input)
    }

    fn install(&self, library: &Library) -> Directory {
        let old = self.inspect().sha256;
        state(&self.install_over(old.as_deref(), library, &library.content))
    }

    fn undo(&self) -> Output {
        run(["undo", &self.path(), "libcls_x_1.so", "none", "none", "0"], &[])
    }
}

fn library(content: &[u8]) -> Library {
    Library::new("x_1", content.to_vec())
}

/// The script makes root the owner of libraries.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn a_library_is_installed_replaced_and_undone() {
    if !is_root() {
        return;
    }
    let classes = Classes::new();
    let first = library(b"first\0\xff\nbenthic-build:1.2-3\0");
    assert_eq!(first.sha256.len(), 64);
    let found = classes.install(&first);
    assert_eq!(found.sha256.as_ref(), Some(&first.sha256));
    assert_eq!(found.record, Some(Record { new: first.sha256.clone(), old: None }));
    assert_eq!(found.build, "1.2-3");
    assert!(found.is_writable && found.arch == std::env::consts::ARCH, "{found:?}");
    assert_eq!(classes.content(), first.content);
    let installed = Path::new(&classes.path()).join("libcls_x_1.so");
    let metadata = fs::metadata(&installed).unwrap();
    assert_eq!((metadata.permissions().mode() & 0o777, metadata.uid()), (0o644, 0));
    assert_eq!(classes.names(), [".libcls_x_1.so.undo", "libcls_x_1.so"]);

    // The same library again changes nothing but wrong permissions.
    fs::set_permissions(&installed, Permissions::from_mode(0o600)).unwrap();
    assert_eq!(classes.install(&first), found);
    let again = fs::metadata(&installed).unwrap();
    assert_eq!((again.ino(), again.permissions().mode() & 0o777), (metadata.ino(), 0o644));

    // A third library makes the second one the previous one.
    let (second, third) = (library(b"second"), library(b"third"));
    classes.install(&second);
    let found = classes.install(&third);
    assert_eq!(found.record, Some(Record { new: third.sha256.clone(), old: Some(second.sha256.clone()) }));
    assert_eq!(classes.names().len(), 3, "one previous library: {:?}", classes.names());
    assert_eq!(state(&classes.undo()).sha256, Some(second.sha256));
    assert_eq!((classes.content(), classes.names()), (b"second".to_vec(), vec!["libcls_x_1.so".to_owned()]));
    let nothing = state(&classes.undo());
    assert_eq!((nothing.record, classes.content()), (None, b"second".to_vec()));
}

#[test]
fn undo_removes_a_library_that_was_new() {
    if !is_root() {
        return;
    }
    let classes = Classes::new();
    classes.install(&library(b"first"));
    assert_eq!(state(&classes.undo()), classes.inspect());
    assert!(classes.names().is_empty(), "{:?}", classes.names());
}

#[test]
fn what_must_not_be_installed_changes_nothing() {
    if !is_root() {
        return;
    }
    let classes = Classes::new();
    let (first, second) = (library(b"first"), library(b"second"));
    classes.install(&first);
    let before = (classes.names(), classes.content());
    let unchanged = |output: &Output, kind: ErrorKind| {
        assert_eq!(refused(output).kind(), kind, "{output:?}");
        assert_eq!((classes.names(), classes.content()), before);
    };
    // The connection ended early.
    unchanged(&classes.install_over(Some(&first.sha256), &second, b"seco"), ErrorKind::Unavailable);
    // Somebody else has installed another library since the plan.
    unchanged(&classes.install_over(Some(&second.sha256), &second, b"second"), ErrorKind::Conflict);
    unchanged(&classes.install_over(None, &second, b"second"), ErrorKind::Conflict);
    // Another command holds the lock.
    let locked = fs::File::open(classes.path()).unwrap();
    locked.lock().unwrap();
    unchanged(&classes.install_over(Some(&first.sha256), &second, b"second"), ErrorKind::Busy);
    unchanged(&classes.undo(), ErrorKind::Busy);
    drop(locked);
    // The rest of a killed command disappears with the next one.
    fs::write(Path::new(&classes.path()).join(".libcls_x_1.so.17.part"), "seco").unwrap();
    unchanged(&classes.install_over(None, &second, b"second"), ErrorKind::Conflict);

    let missing = run(["inspect", "/no such/directory", "libcls_x_1.so", "none", "none", "0"], &[]);
    assert_eq!(refused(&missing).kind(), ErrorKind::NotFound);
}

#[test]
fn undo_needs_the_library_that_was_installed_and_the_previous_one() {
    if !is_root() {
        return;
    }
    let classes = Classes::new();
    classes.install(&library(b"first"));
    classes.install(&library(b"second"));
    let file = |name: &str| Path::new(&classes.path()).join(name);
    fs::write(file("libcls_x_1.so"), "by hand").unwrap();
    assert_eq!(refused(&classes.undo()).kind(), ErrorKind::Conflict);
    fs::write(file("libcls_x_1.so"), "second").unwrap();
    let previous = classes.names().into_iter().find(|name| name.ends_with(".previous")).unwrap();
    fs::remove_file(file(&previous)).unwrap();
    fs::write(file(&previous), "damaged").unwrap();
    assert_eq!(refused(&classes.undo()).kind(), ErrorKind::Corrupt);
    assert_eq!(classes.content(), b"second");
    fs::write(file(".libcls_x_1.so.undo"), "$(touch x) ..\n").unwrap();
    assert_eq!(refused(&classes.undo()).kind(), ErrorKind::Corrupt);
}

/// An installation that stops between two of its steps can be repeated and undone.
#[test]
fn an_interrupted_installation_can_be_repeated_and_undone() {
    if !is_root() {
        return;
    }
    let (first, second) = (library(b"first"), library(b"second"));
    let record = format!("{} {}\n", second.sha256, first.sha256);
    let kept = format!(".libcls_x_1.so.{}.previous", first.sha256);
    for steps in 0..3 {
        for repeat in [true, false] {
            let classes = Classes::new();
            let file = |name: &str| Path::new(&classes.path()).join(name);
            fs::write(file("libcls_x_1.so"), "first").unwrap();
            fs::write(file(".libcls_x_1.so.17.part"), "second").unwrap();
            if steps > 0 {
                fs::hard_link(file("libcls_x_1.so"), file(&kept)).unwrap();
            }
            if steps > 1 {
                fs::write(file(".libcls_x_1.so.undo"), &record).unwrap();
            }
            if repeat {
                classes.install(&second);
                assert_eq!(classes.content(), b"second");
            }
            state(&classes.undo());
            assert_eq!(classes.content(), b"first", "{steps} steps");
        }
    }
}

#[test]
fn processes_show_which_file_they_opened() {
    if !is_root() {
        return;
    }
    let classes = Classes::new();
    let sleep = fs::read("/bin/sleep").unwrap();
    classes.install(&library(&sleep));
    let installed = Path::new(&classes.path()).join("libcls_x_1.so");
    fs::set_permissions(&installed, Permissions::from_mode(0o755)).unwrap();
    // The options of an OSD in its command line.
    let mut runs = Command::new("bash")
        .args(["-c", "exec -a 'ceph-osd' \"$0\" 600", &installed.display().to_string()])
        .spawn()
        .unwrap();
    let pid = runs.id();
    let mut loaded = Vec::new();
    for _ in 0..200 {
        loaded = classes.inspect().loaded;
        if !loaded.is_empty() {
            break;
        }
    }
    let newer = classes.install(&library(&[&sleep[..], b"new"].concat())).loaded;
    let undone = state(&classes.undo()).loaded;
    runs.kill().unwrap();
    runs.wait().unwrap();
    let expected = |is_older| vec![Loaded { pid, osd: None, is_older }];
    assert_eq!((loaded, newer), (expected(false), expected(true)));
    assert_eq!(undone, expected(false), "the process runs the file that is back");
}

#[test]
fn an_answer_is_complete_or_nothing() {
    let answer = "motd\nbenthic host 1\narch x86_64\ndir /c\nwritable no\nfree_bytes 7\nfile none\nrecord none none\n\
                  process 12 0 older\nprocess 13 - current\nend\n";
    let found = Directory::parse(answer).unwrap();
    let loaded = |pid, osd, is_older| Loaded { pid, osd, is_older };
    assert_eq!(found.loaded, [loaded(12, Some(0), true), loaded(13, None, false)]);
    assert_eq!((found.free_bytes, found.is_writable, found.sha256, found.record), (7, false, None, None));
    for wrong in [
        answer.strip_suffix("end\n").unwrap(),
        &answer.replace("benthic host 1\n", ""),
        &answer.replace("older", "").replace("process 12 0 ", "process x y"),
        &answer.replace("arch", "what"),
        "",
    ] {
        assert_eq!(Directory::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn a_host_that_never_ran_the_script_needs_root() {
    let status = ExitStatus::from_raw(1 << 8);
    let stderr_line = "sudo: a password is required".to_owned();
    let error = failure(1, &Ended { status, stdout: "motd\n".to_owned(), stderr_line });
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.message().contains("sudo: a password is required"), "{error}");
    let full =
        Ended { status, stdout: "benthic host 1\n".to_owned(), stderr_line: "the disk is full".to_owned() };
    assert_eq!(failure(74, &full).reason(), Some(Reason::StoreFull));
}

#[test]
fn words_are_quoted_and_paths_are_absolute() {
    assert_eq!(shell_word("a'b"), r"'a'\''b'");
    for path in ["/a b/$(c)'", "/usr/lib64/rados-classes"] {
        assert!(check_path(path).is_ok(), "{path}");
    }
    for path in ["", "a", "~/a", "/a\nb", "-/a"] {
        assert!(check_path(path).is_err(), "{path:?}");
    }
    assert!(check_path(&format!("/{}", "a".repeat(1024))).is_err());
}

#[test]
fn a_library_knows_its_architecture() {
    let elf = |machine: [u8; 2]| Library::new("x_1", [&[0; 18][..], &machine].concat());
    assert_eq!(elf([0x3e, 0]).arch(), Some("x86_64"));
    assert_eq!(elf([0xb7, 0]).arch(), Some("aarch64"));
    assert_eq!((elf([1, 0]).arch(), Library::new("x_1", Vec::new()).arch()), (None, None));
}
