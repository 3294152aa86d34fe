//! `benthic-csi`: the verb `csi` of `benthic`, as a separate program.

mod commands;

use benthic_program::output::Output;
use benthic_program::session::Session;
use benthic_program::{Global, refuse, run_to_end, with_usage};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// A CSI driver over the block images of a store.
#[derive(Parser)]
#[command(
    name = "benthic-csi",
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
    /// Serve volumes to Kubernetes with the Container Storage Interface
    Csi(commands::CsiArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&with_usage(error, Cli::command())),
    };
    let session = Session::new(cli.global.store, Output::new(cli.global.json), benthic_classes::registry());
    run_to_end(session, cli.global.verbose, async |session| match cli.command {
        Command::Csi(args) => commands::run(args, session).await,
    })
}
