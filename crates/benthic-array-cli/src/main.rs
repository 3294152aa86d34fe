//! The program `benthic-array`: the verb `array` of `benthic`, as a separate program.

mod commands;
mod directory;
mod load;
mod output;
mod picture;
mod reference;
mod selection;
mod serve;
mod source;

use benthic_array::ArrayClass;
use benthic_program::output::Output;
use benthic_program::session::Session;
use benthic_program::{Global, refuse, run_to_end, with_usage};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Arrays in Zarr's format; on a cluster, reductions run beside the chunks.
#[derive(Parser)]
#[command(
    name = "benthic-array",
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
    /// Create, read, reduce, check, export and serve arrays
    #[command(subcommand, after_help = commands::EXAMPLES)]
    Array(commands::ArrayCommand),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&with_usage(error, Cli::command())),
    };
    // The server looks up accounts with the built-in classes.
    let classes = benthic_classes::registry().with(ArrayClass);
    let session = Session::new(cli.global.store, Output::new(cli.global.json), classes);
    run_to_end(session, cli.global.verbose, async |session| match cli.command {
        Command::Array(command) => commands::run(command, session).await,
    })
}
