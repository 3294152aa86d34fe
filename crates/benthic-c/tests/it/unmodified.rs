//! Programs that know nothing of Benthic, with our librados.

use crate::libraries::{CRATE, compile, exported, libraries, run};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

#[test]
fn the_library_exports_its_list_under_the_version_of_librados() {
    let list = fs::read_to_string(format!("{CRATE}/librados.map")).unwrap();
    let names = list
        .lines()
        .filter_map(|line| line.trim().strip_suffix(';'))
        .filter(|name| name.starts_with("rados_"));
    let expected: BTreeSet<String> = names.map(|name| format!("{name}@@LIBRADOS_14.2.0")).collect();
    assert_eq!(expected.len(), 158);
    assert_eq!(exported("librados/librados.so.2"), expected);
}

/// fio writes data and verifies them. It needs Ceph's library too, for the C++ interface of librbd,
/// which it links, so ours comes first.
#[test]
fn fio_verifies_what_it_wrote() {
    let directory = tempfile::tempdir().unwrap();
    let store = format!("file:{}", directory.path().join("store").display());
    let conf = directory.path().join("ceph.conf");
    fs::write(&conf, format!("[global]\nbenthic store = {store}\n")).unwrap();
    run(Command::new(compile("tests/c/pool.c", "benthic", directory.path()))
        .args([&store, "fio"])
        .env("LD_LIBRARY_PATH", libraries()));
    let mut fio = Command::new("fio");
    fio.args([
        "--name=verify",
        "--ioengine=rados",
        "--clientname=admin",
        "--pool=fio",
        "--rw=randwrite",
        "--bs=4k",
    ]);
    fio.args(["--size=1m", "--nrfiles=4", "--iodepth=16", "--verify=crc32c", "--verify_fatal=1"]);
    fio.arg(format!("--conf={}", conf.display())).current_dir(directory.path());
    let report = run(fio.env("LD_PRELOAD", libraries().join("libbenthic-rados.so.1")));
    assert!(report.contains("err= 0"), "{report}");
    // The data are in our store, and nowhere else.
    run(Command::new(directory.path().join("pool"))
        .args([&store, "fio", "1048576"])
        .env("LD_LIBRARY_PATH", libraries()));
}
