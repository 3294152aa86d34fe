//! `benthic completions`: prints a completion script for a shell.

use super::other;
use crate::args::Cli;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::{Args, CommandFactory};
use clap_complete::Shell;

#[derive(Args)]
#[command(
    after_help = "Example:\n  benthic completions bash > ~/.local/share/bash-completion/completions/benthic"
)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub fn run(args: &CompletionsArgs, session: &Session) -> Outcome {
    let mut script = Vec::new();
    let mut command = Cli::command();
    for definition in other::definitions() {
        let verb = definition.name().to_owned();
        command = command.mut_subcommand(verb, |_| definition.command());
    }
    clap_complete::generate(args.shell, &mut command, "benthic", &mut script);
    session.out.write_bytes(&script)
}
