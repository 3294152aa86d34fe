//! The README's tour of Ceph: its commands, run as they stand there.

use std::process::Command;

#[test]
fn the_readme_s_tour_of_ceph_works() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let tour = readme.split("```sh ceph\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    // The program under test stands in for the one that the reader built.
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_benthic")).parent().unwrap();
    let tour = tour.replace("$PWD/target/release", &binary.display().to_string());
    assert!(tour.contains("cluster up") && tour.contains("down --remove"), "all of it was found");
    let scratch = tempfile::tempdir().unwrap();
    // However it ends, no daemon stays.
    let tour = format!("trap 'benthic cluster down --remove >&2 || true' EXIT\n{tour}\ntrap - EXIT");
    let run = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &tour])
        .current_dir(root)
        .env("TMPDIR", scratch.path())
        .env_remove("BENTHIC_STORE")
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stdout}\n{stderr}");
    for expected in [
        "a picture, more or less",
        "failed with status 13, as it should",
        "Hello, Ada!",
        "written without osd.1",
    ] {
        assert!(stdout.contains(expected), "{expected}: {stdout}\n{stderr}");
    }
}
