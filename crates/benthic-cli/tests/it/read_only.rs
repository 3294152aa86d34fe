//! Stores that the program may read and not write: on a read-only mount, and of another user.

use crate::support::{Home, failed, json_lines, pattern, printed, tree};
use benthic_testkit::mounts::{mounted, skipped};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

const DISABLED: &str = "writes are disabled because the store is opened read-only: ";

/// A store with objects, attributes, keys and a striped object.
fn stored() -> Home {
    let home = Home::with_pool();
    home.file("tree/a", "aaaa");
    home.file("tree/sub/b", pattern(300_000));
    home.file("large", pattern(5 << 20));
    home.ok(&["cp", "-r", "tree", "p/t"]);
    home.ok(&["omap", "set", "p/t/a", "key", "value"]);
    home.ok(&["exec", "p/t/a", "digest", "md5"]);
    home.ok(&["cp", "--stripe", "large", "p/"]);
    home
}

/// Runs the program while the store is mounted read-only. `None` if this process may not mount.
fn on_read_only_mount(home: &Home, args: &[&str]) -> Option<Output> {
    let mut command = mounted("mount --bind \"$STORE\" \"$STORE\" && mount -o remount,bind,ro \"$STORE\"")?;
    let program = home.command(args);
    command.arg(program.get_program()).args(program.get_args()).current_dir(home.dir());
    command.env_remove("BENTHIC_STORE").env("STORE", home.path("benthic-data"));
    Some(command.stdin(Stdio::null()).output().unwrap())
}

/// A command that runs a copy of the program as a user that may read the store and not write it.
/// Root may write everywhere, so it runs the program as another user.
fn as_reader(home: &Home, args: &[&str]) -> Command {
    let store = home.path("benthic-data");
    let mode = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    if !rustix::process::getuid().is_root() {
        mode(&store.join("lock"), 0o444);
        mode(&store, 0o555);
        return home.command(args);
    }
    mode(home.dir(), 0o777);
    let program = home.path("program");
    if !program.exists() {
        fs::copy(env!("CARGO_BIN_EXE_benthic"), &program).unwrap();
    }
    let mut somebody = Command::new("setpriv");
    somebody.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program).args(args);
    somebody.current_dir(home.dir()).env_remove("BENTHIC_STORE").stdin(Stdio::null());
    somebody
}

/// Names, times and contents of all files of the store.
fn state(home: &Home) -> BTreeMap<PathBuf, (SystemTime, Vec<u8>)> {
    let store = home.path("benthic-data");
    let read = |name: String| {
        let path = store.join(name);
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        (path.clone(), (modified, fs::read(&path).unwrap()))
    };
    tree(&store).into_iter().filter(|name| store.join(name).is_file()).map(read).collect()
}

/// Runs every reading command and many that write.
fn read_all(home: &Home, reason: &str, run: impl Fn(&[&str]) -> Output) {
    let quiet = |args: &[&str]| {
        let run = run(args);
        assert_eq!(String::from_utf8_lossy(&run.stderr), "", "{args:?}");
        printed(&run, args)
    };
    assert_eq!(quiet(&["get", "p/t/a", "-"]), "aaaa");
    assert_eq!(quiet(&["ls", "p", "--prefix", "t/"]), "t/a\nt/sub/b\n");
    assert!(quiet(&["stat", "p/t/a"]).contains('4'));
    assert_eq!(quiet(&["omap", "get", "p/t/a", "key"]), "value");
    assert_eq!(
        quiet(&["xattr", "get", "p/t/a", "digest.md5"]),
        quiet(&["exec", "p/t/a", "digest", "compute", "md5"]).trim_end()
    );
    assert_eq!(
        quiet(&["exec", "--all", "p", "digest", "compute", "xxh3"]).lines().count(),
        quiet(&["ls", "p"]).lines().count()
    );
    assert_eq!(quiet(&["pool", "ls"]), "p\n");
    assert!(quiet(&["cp", "-r", "p/t", "back"]).starts_with("copied 2"));
    assert!(home.read("back/sub/b") == pattern(300_000));
    assert!(quiet(&["cp", "--stripe", "p/large", "large-back"]).starts_with("copied 5.0 MiB"));
    assert!(home.read("large-back") == pattern(5 << 20));
    assert!(quiet(&["scrub"]).contains("0 findings"));
    assert!(quiet(&["fsck"]).contains("0 findings"));

    let message = format!("{DISABLED}{reason}");
    for args in [
        &["put", "p/new", "large"][..],
        &["rm", "p/t/a"],
        &["rm", "p/t/a", "p/t/sub/b"],
        &["cp", "-r", "tree", "p/new"],
        &["cp", "--stripe", "large", "p/new"],
        &["xattr", "set", "p/t/a", "x", "y"],
        &["omap", "set", "p/t/a", "x", "y"],
        &["exec", "p/t/a", "digest", "xxh3"],
        &["exec", "--all", "p", "digest", "xxh3"],
        &["pool", "create", "q"],
        &["bench", "write", "p", "--count", "100"],
        &["bench", "rand", "p", "--count", "100"],
    ] {
        let stderr = failed(&run(args), 8);
        assert_eq!(stderr.matches(&message).count(), 1, "{args:?}: {stderr}");
        assert_eq!(stderr.lines().count(), 1, "{args:?}: {stderr}");
        let stderr = run(&[&["--json"], args].concat()).stderr;
        assert_eq!(json_lines(&stderr)[0]["error"]["kind"], "permission_denied", "{args:?}");
    }
}

#[test]
fn a_store_on_a_read_only_mount_can_be_read() {
    let home = stored();
    if on_read_only_mount(&home, &["pool", "ls"]).is_none() {
        return skipped("a_store_on_a_read_only_mount_can_be_read");
    }
    for has_lock in [true, false] {
        if !has_lock {
            fs::remove_file(home.path("benthic-data/lock")).unwrap();
        }
        let before = state(&home);
        let run = |args: &[&str]| on_read_only_mount(&home, args).unwrap();
        read_all(&home, "its file system is mounted read-only", run);
        assert!(before == state(&home), "has_lock={has_lock}");
        for path in ["back", "large-back"] {
            let path = home.path(path);
            fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path)).unwrap();
        }
    }
    home.ok(&["put", "p/new", "large"]);
}

#[test]
fn a_store_of_another_user_can_be_read() {
    let home = stored();
    let before = state(&home);
    let run = |args: &[&str]| as_reader(&home, args).output().unwrap();
    read_all(&home, "this user has no permission to write to it", run);
    assert!(before == state(&home));
    // A lock file that cannot be read says nothing about an owner.
    if rustix::process::getuid().is_root() {
        fs::set_permissions(home.path("benthic-data/lock"), PermissionsExt::from_mode(0o600)).unwrap();
        assert!(failed(&run(&["ls", "p"]), 8).contains("another process may be changing the store"));
    }
    fs::set_permissions(home.path("benthic-data"), PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn a_store_whose_owner_was_killed_must_be_opened_for_writing_first() {
    let home = Home::with_pool();
    let mut command = home.command(&["bench", "write", "p", "--seconds", "600", "--size", "1KiB"]);
    let mut owner = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while home.ok(&["ls", "p:benthic-bench"]).is_empty() {
        assert!(owner.try_wait().unwrap().is_none(), "it runs");
    }
    let read = || as_reader(&home, &["ls", "p:benthic-bench"]).output().unwrap();
    if rustix::process::getuid().is_root() {
        // Another user cannot reach the owner's socket.
        assert!(failed(&read(), 8).contains("a process of another user owns the store"));
    }
    owner.kill().unwrap();
    owner.wait().unwrap();
    let stderr = failed(&read(), 8);
    assert!(stderr.contains("its log must be replayed") && stderr.contains("benthic fsck"), "{stderr}");
    fs::set_permissions(home.path("benthic-data"), PermissionsExt::from_mode(0o755)).unwrap();
    fs::set_permissions(home.path("benthic-data/lock"), PermissionsExt::from_mode(0o644)).unwrap();
    home.ok(&["fsck"]);
    let objects = printed(&read(), &["ls"]);
    assert!(!objects.is_empty());
    fs::set_permissions(home.path("benthic-data"), PermissionsExt::from_mode(0o755)).unwrap();
}
