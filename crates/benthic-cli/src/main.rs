//! `benthic`: programmable object storage from the command line.

mod args;
mod commands;
mod jobs;
mod places;

use benthic_program::output::Output;
use benthic_program::session::Session;
use benthic_program::{refuse, run_to_end, with_usage};
use clap::FromArgMatches;
use std::process::ExitCode;

fn main() -> ExitCode {
    let parsed = args::command().try_get_matches();
    let cli = match parsed.and_then(|matches| args::Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            let mut error = with_usage(error, args::command());
            args::suggest_verb(&mut error);
            return refuse(&error);
        }
    };
    let session = Session::new(cli.global.store, Output::new(cli.global.json), benthic_classes::registry());
    run_to_end(session, cli.global.verbose, async |session| commands::run(cli.command, session).await)
}
