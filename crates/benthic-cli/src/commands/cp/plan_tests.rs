use super::{Destination, Sources, Target, classify, destination, is_address, is_path, plan_files, target};
use benthic_core::ErrorKind;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::slice;

fn to(text: &str) -> Target {
    target("f", text).unwrap()
}

#[test]
fn paths_and_addresses_are_distinguished() {
    for text in ["/x", "./x", "../x", ".", "..", "./a:b/c"] {
        assert!(is_path(text) && !is_address(text), "{text}");
    }
    for text in ["p:/x", "p:ns/x", "p:ns", "a.b:c/d"] {
        assert!(is_address(text) && !is_path(text), "{text}");
    }
    for text in ["p/x", "p", "x.txt", "a/b:c"] {
        assert!(!is_address(text) && !is_path(text), "{text}");
    }
    let here = tempfile::tempdir().unwrap();
    let file = here.path().join("f").to_str().unwrap().to_owned();
    fs::write(&file, "").unwrap();
    assert_eq!(classify(slice::from_ref(&file)).unwrap(), Sources::Paths(vec![PathBuf::from(&file)]));
    assert_eq!(
        classify(&["no-such-pool/x".to_owned()]).unwrap(),
        Sources::Objects(vec![to("no-such-pool/x")])
    );
    assert!(classify(&[file, "p:/x".to_owned()]).is_err(), "mixed");
    assert!(target("f", "./x").is_err(), "two paths");
    let pools = ["p".to_owned(), "src".to_owned()];
    for text in ["p", "p/", "p/x", "p:ns", "other:/x", "src:/x"] {
        assert_eq!(destination(text, &pools).unwrap(), Destination::Objects(to(text)), "{text}");
    }
    for text in ["./p/x", "/p", "other/x", "px", ".", "./src/x"] {
        assert_eq!(destination(text, &pools).unwrap(), Destination::Path(PathBuf::from(text)), "{text}");
    }
    // Cargo runs this test in the directory of the crate, which has a directory src.
    assert!(destination("src/x", &pools).is_err(), "a pool and a directory");
}

#[test]
fn prefixes_overlap_if_one_contains_the_other() {
    for (one, other) in [("p/a", "p/a/"), ("p/a", "p/a/b"), ("p", "p/a"), ("p:ns/a/b", "p:ns/a")] {
        assert!(to(one).overlaps(&to(other)) && to(other).overlaps(&to(one)), "{one} {other}");
    }
    for (one, other) in [("p/a", "p/ab"), ("p/a", "q/a"), ("p/a", "p:ns/a"), ("p:x", "p:y")] {
        assert!(!to(one).overlaps(&to(other)), "{one} {other}");
    }
}

#[test]
fn objects_are_named_after_their_files() {
    let here = tempfile::tempdir().unwrap();
    let (root, file) = (here.path(), here.path().join("d/e/f.txt"));
    fs::create_dir_all(root.join("d/e/empty")).unwrap();
    fs::write(&file, "data").unwrap();
    fs::write(root.join("d/g"), "").unwrap();
    let names = |paths: &[PathBuf], text: &str, recursive: bool| -> Vec<String> {
        let plan = plan_files(paths, &to(text), recursive, None);
        assert!(plan.refused.is_empty(), "{:?}", plan.refused);
        plan.uploads.iter().map(|upload| upload.object.to_string()).collect()
    };
    assert_eq!(names(slice::from_ref(&file), "p/name", false), ["name"]);
    assert_eq!(names(slice::from_ref(&file), "p/dir/", false), ["dir/f.txt"]);
    assert_eq!(names(slice::from_ref(&file), "p:ns", false), [":ns/f.txt"]);
    assert_eq!(names(&[root.join("d")], "p", true), ["e/f.txt", "g"]);
    assert_eq!(names(&[root.join("d")], "p:ns/x", true), [":ns/x/e/f.txt", ":ns/x/g"]);
    assert_eq!(names(&[root.join("d/e")], "p/x/", true), ["x/f.txt"]);
}

#[test]
fn a_plan_lists_refused_and_skipped_paths() {
    let here = tempfile::tempdir().unwrap();
    let root = here.path();
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(root.join("sub/a"), "x").unwrap();
    fs::write(root.join(OsStr::from_bytes(b"bad\xff")), "x").unwrap();
    fs::File::create(root.join("huge")).unwrap().set_len(128 * 1024 * 1024 + 1).unwrap();
    symlink(root.join("sub/a"), root.join("to-file")).unwrap();
    symlink(root.join("sub"), root.join("to-dir")).unwrap();
    symlink(root.join("nowhere"), root.join("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();

    let plan = plan_files(&[root.to_owned(), root.join("sub")], &to("p"), true, None);
    let names: Vec<&str> = plan.uploads.iter().map(|upload| upload.object.name()).collect();
    assert_eq!(names, ["sub/a", "to-file", "a"]);
    let mut refused: Vec<(&str, ErrorKind)> =
        plan.refused.iter().map(|(path, error)| (path.rsplit('/').next().unwrap(), error.kind())).collect();
    refused.sort_unstable();
    assert_eq!(
        refused,
        [
            ("bad\u{fffd}", ErrorKind::InvalidArgument),
            ("dangling", ErrorKind::NotFound),
            ("huge", ErrorKind::LimitExceeded)
        ]
    );
    assert_eq!(plan.skipped.len(), 2, "{:?}", plan.skipped);

    let twice = plan_files(&[root.join("sub/a"), root.join("sub/a")], &to("p"), false, None);
    assert_eq!((twice.uploads.len(), twice.refused.len()), (1, 1));
    let directory = plan_files(&[root.join("sub")], &to("p"), false, None);
    assert_eq!((directory.uploads.len(), directory.refused.len()), (0, 1));
}
