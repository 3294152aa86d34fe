use super::{Cli, GROUPS};
use clap::CommandFactory;

#[test]
fn every_command_is_in_one_group() {
    let command = Cli::command();
    let mut commands: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    commands.push("help");
    let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    commands.sort_unstable();
    grouped.sort_unstable();
    assert_eq!(commands, grouped);
}
