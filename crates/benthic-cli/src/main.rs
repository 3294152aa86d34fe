//! `benthic`: programmable object storage from the command line.

mod args;
mod commands;
mod jobs;
mod places;

use benthic_program::output::Output;
use benthic_program::session::Session;
use benthic_program::{refuse, run_to_end};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match args::Cli::try_parse() {
        Ok(cli) => cli,
        Err(mut error) => {
            args::suggest_verb(&mut error);
            return refuse(&error);
        }
    };
    let classes = benthic_classes::registry();
    let session = Session::new(cli.global.store, Output::new(cli.global.json), classes);
    run_to_end(session, cli.global.verbose, async |session| commands::run(cli.command, session).await)
}
