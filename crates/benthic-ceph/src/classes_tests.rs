use super::{install, running_older};
use benthic_core::ErrorKind;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

/// The minimum that `install` accepts as a library.
const LIBRARY: &[u8] = b"\x7fELF....\0__cls_init\0....";

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_library_is_installed_beside_others_and_replaced_whole() {
    let build = tempfile::tempdir().unwrap();
    let classes = tempfile::tempdir().unwrap();
    fs::write(classes.path().join("libcls_lock.so"), "Ceph's").unwrap();
    let library = build.path().join("libcls_mydigest_1.so");
    fs::write(&library, LIBRARY).unwrap();
    let installed = install(&library, classes.path()).unwrap();
    assert_eq!(installed, fs::canonicalize(classes.path()).unwrap().join("libcls_mydigest_1.so"));
    assert_eq!(fs::metadata(&installed).unwrap().permissions().mode() & 0o777, 0o644);

    // A process that has the old file open keeps it, as an OSD does.
    let old = fs::File::open(&installed).unwrap();
    fs::write(&library, [LIBRARY, b"new"].concat()).unwrap();
    install(&library, classes.path()).unwrap();
    assert_eq!(fs::read(&installed).unwrap(), [LIBRARY, b"new"].concat());
    assert_eq!(old.metadata().unwrap().len(), LIBRARY.len() as u64);
    assert_eq!(names_in(classes.path()), ["libcls_lock.so", "libcls_mydigest_1.so"]);
}

#[test]
fn a_running_older_file_is_found_by_any_path() {
    let build = tempfile::tempdir().unwrap();
    let classes = tempfile::tempdir().unwrap();
    let link = build.path().join("link");
    symlink(classes.path(), &link).unwrap();
    let library = build.path().join("libcls_sleeper_1.so");
    // A program that is its own library: it maps the file, as an OSD does.
    let program = [&fs::read("/bin/sleep").unwrap()[..], b"\0__cls_init\0"].concat();
    fs::write(&library, &program).unwrap();
    let installed = install(&library, &link).unwrap();
    assert_eq!(installed, fs::canonicalize(classes.path()).unwrap().join("libcls_sleeper_1.so"));

    fs::set_permissions(&installed, Permissions::from_mode(0o700)).unwrap();
    let mut runs = Command::new(&installed).arg("600").spawn().unwrap();
    fs::write(&library, [&program[..], b"new"].concat()).unwrap();
    let older = install(&library, &link).and_then(|installed| running_older(&installed));
    runs.kill().unwrap();
    runs.wait().unwrap();
    assert_eq!(older.unwrap(), [runs.id()]);
}

#[test]
fn files_without_classes_and_names_of_ceph_are_refused() {
    let build = tempfile::tempdir().unwrap();
    let classes = tempfile::tempdir().unwrap();
    for name in
        ["libcls_lock.so", "libcls_rbd.so", "libcls_.so", "libcls_A.so", "libcls_a-b.so", "mydigest.so"]
    {
        let library = build.path().join(name);
        fs::write(&library, LIBRARY).unwrap();
        let error = install(&library, classes.path()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}");
    }
    let library = build.path().join("libcls_mydigest_1.so");
    for content in [&b"#!/bin/sh\n__cls_init\n"[..], b"\x7fELF without an entry point", b""] {
        fs::write(&library, content).unwrap();
        assert_eq!(install(&library, classes.path()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    fs::write(&library, LIBRARY).unwrap();
    let missing = classes.path().join("missing");
    assert_eq!(install(&library, &missing).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(names_in(classes.path()), Vec::<String>::new());
}

#[test]
fn an_identical_file_is_not_written_again() {
    let build = tempfile::tempdir().unwrap();
    let classes = tempfile::tempdir().unwrap();
    let library = build.path().join("libcls_mydigest_1.so");
    fs::write(&library, LIBRARY).unwrap();
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    let first = inode(&install(&library, classes.path()).unwrap());
    fs::set_permissions(classes.path().join("libcls_mydigest_1.so"), Permissions::from_mode(0o600)).unwrap();
    let installed = install(&library, classes.path()).unwrap();
    assert_eq!(inode(&installed), first);
    assert_eq!(fs::metadata(&installed).unwrap().permissions().mode() & 0o777, 0o644, "OSDs can read it");
    fs::write(&library, [LIBRARY, b"new"].concat()).unwrap();
    assert_ne!(inode(&install(&library, classes.path()).unwrap()), first);
    assert_eq!(running_older(&installed).unwrap(), Vec::<u32>::new(), "no process had loaded it");
}
