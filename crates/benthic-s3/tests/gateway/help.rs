//! The help of the program.

#[test]
fn every_command_has_help_with_an_example() {
    benthic_testkit::program::check_help(env!("CARGO_BIN_EXE_benthic-s3"), &["benthic", "s3"], &[]);
}
