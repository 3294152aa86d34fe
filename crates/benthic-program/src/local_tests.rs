use super::{NewFile, local_path};
use benthic_core::ErrorKind;
use std::fs;
use std::path::Path;

#[test]
fn a_part_that_was_kept_continues() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "old").unwrap();
    let (mut file, len_bytes) = NewFile::resume(&path, 7).unwrap();
    assert_eq!(len_bytes, 0);
    file.write(b"abcdef").unwrap();
    assert_eq!(NewFile::resume(&path, 7).err().unwrap().kind(), ErrorKind::Busy);
    // Another content has a part of its own.
    assert_eq!(NewFile::resume(&path, 8).unwrap().1, 0);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "the part that is being written stays");
    file.sync().unwrap();
    drop(file);
    assert_eq!(fs::read(&path).unwrap(), b"old");

    let (mut file, len_bytes) = NewFile::resume(&path, 7).unwrap();
    assert_eq!(len_bytes, 6);
    file.truncate(3).unwrap();
    file.write_hole(2).unwrap();
    file.write(b"x").unwrap();
    file.finish_durably().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"abc\0\0x");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "the other part is gone");
    NewFile::resume(&path, 9).unwrap().0.discard();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_part_that_another_user_may_have_put_there_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let (path, part) = (dir.path().join("file"), dir.path().join(".file.0000000000000007.benthic-part"));
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let refused = || {
        let error = NewFile::resume(&path, 7).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert!(error.to_string().contains("is in the way"), "{error}");
    };
    std::os::unix::fs::symlink(&victim, &part).unwrap();
    refused();
    fs::remove_file(&part).unwrap();
    fs::hard_link(&victim, &part).unwrap();
    refused();
    fs::remove_file(&part).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &part, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    refused();
    assert_eq!(fs::read(&victim).unwrap(), b"precious");
}

#[test]
fn long_names_have_parts_too() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("\u{e9}".repeat(125));
    NewFile::resume(&path, 7).unwrap().0.finish(None).unwrap();
    assert!(path.exists());
}

#[test]
fn a_new_part_has_the_permissions_of_a_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode();
    let (path, other) = (dir.path().join("file"), dir.path().join("other"));
    fs::File::create(&other).unwrap();
    NewFile::resume(&path, 7).unwrap().0.finish(None).unwrap();
    assert_eq!(mode(&path), mode(&other));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    NewFile::resume(&path, 8).unwrap().0.finish(None).unwrap();
    assert_eq!(mode(&path) & 0o777, 0o640);
}

#[test]
fn no_object_name_leaves_the_destination() {
    let directory = Path::new("/d");
    assert_eq!(local_path(directory, "a/b..c/.d").unwrap(), Path::new("/d/a/b..c/.d"));
    for name in ["", "..", ".", "/etc/passwd", "a/../../b", "a//b", "a/", "../x", "./x"] {
        assert_eq!(local_path(directory, name).unwrap_err().kind(), ErrorKind::InvalidArgument, "{name:?}");
    }
}
