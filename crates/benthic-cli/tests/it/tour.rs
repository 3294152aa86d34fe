//! The README's tour: its commands, run as they stand there.

use std::process::Command;

#[test]
fn the_readme_s_tour_works() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).unwrap();
    let tour = readme.split("```sh tour\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    // The program under test stands in for the one that the reader built.
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_benthic")).parent().unwrap();
    let tour = tour.replace("$PWD/target/release", &binary.display().to_string());
    assert!(tour.contains("digest verify") && tour.contains("bench write"), "all of it was found");
    let scratch = tempfile::tempdir().unwrap();
    let run = Command::new("bash")
        .args(["-euo", "pipefail", "-c", &tour])
        .current_dir(root)
        .env("TMPDIR", scratch.path())
        .env_remove("BENTHIC_STORE")
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success(), "{stdout}\n{stderr}");
    assert!(stdout.contains("a picture, more or less"), "{stdout}");
    assert!(stdout.contains("failed with status 13, as it should"), "{stdout}");
}
