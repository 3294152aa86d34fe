//! The help of the program.

#[test]
fn the_command_has_help_with_an_example() {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_benthic-csi")).args(["csi", "--help"]).output();
    let help = String::from_utf8(help.unwrap().stdout).unwrap();
    assert!(help.contains("Example:\n  benthic --store ceph: csi --endpoint"), "{help}");
}
