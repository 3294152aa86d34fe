//! The program `benthic-sql`: the verbs `sql` and `table` of `benthic`, as a separate program.

mod commands;

use benthic_program::output::Output;
use benthic_program::session::Session;
use benthic_program::{Global, refuse, run_to_end, with_usage};
use clap::{CommandFactory, Parser, Subcommand};
use commands::{sql, table};
use std::process::ExitCode;

/// Tables and SQL; on a cluster, parts of queries run beside the objects.
#[derive(Parser)]
#[command(
    name = "benthic-sql",
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
    /// Query tables, Parquet objects and local files with SQL
    Sql(sql::SqlArgs),
    /// Create, load, inspect and remove tables
    #[command(subcommand, after_help = table::EXAMPLES)]
    Table(table::TableCommand),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refuse(&with_usage(error, Cli::command())),
    };
    let classes = benthic_sql::classes();
    let session = Session::new(cli.global.store, Output::new(cli.global.json), classes);
    run_to_end(session, cli.global.verbose, async |session| match cli.command {
        Command::Sql(args) => sql::run(args, session).await,
        Command::Table(command) => table::run(command, session).await,
    })
}
