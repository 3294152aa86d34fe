//! The program `benthic-catalog`: the verb `catalog` of `benthic`, as a separate program.

mod commands;

use benthic_program::output::Output;
use benthic_program::session::Session;
use benthic_program::{Global, refuse, run_to_end, with_usage};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Tables for programs that read Iceberg.
#[derive(Parser)]
#[command(
    name = "benthic-catalog",
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
    /// Serve tables to programs that read Iceberg
    #[command(subcommand, after_help = commands::EXAMPLES)]
    Catalog(commands::CatalogCommand),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&with_usage(error, Cli::command())),
    };
    let session = Session::new(cli.global.store, Output::new(cli.global.json), benthic_classes::registry());
    run_to_end(session, cli.global.verbose, async |session| match cli.command {
        Command::Catalog(command) => commands::run(command, session).await,
    })
}
