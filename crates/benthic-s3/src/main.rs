//! `benthic-s3`: the verb `s3` of `benthic`, as a separate program.

mod commands;

use benthic_program::output::Output;
use benthic_program::session::Session;
use benthic_program::{Global, refuse, run_to_end, with_usage};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// S3 over the objects of a store.
#[derive(Parser)]
#[command(
    name = "benthic-s3",
    bin_name = "benthic",
    version,
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve S3, and administer its accounts, keys and buckets
    #[command(after_help = commands::EXAMPLES)]
    S3(commands::S3Args),
}

fn main() -> ExitCode {
    let cli = match commands::config::parse::<Cli>(std::env::args_os().collect()) {
        Ok(cli) => cli,
        Err(error) => return refuse(&with_usage(error, Cli::command())),
    };
    let session = Session::new(cli.global.store, Output::new(cli.global.json), benthic_classes::registry());
    run_to_end(session, cli.global.verbose, async |session| match cli.command {
        Command::S3(args) => commands::run(args, session).await,
    })
}
