//! The program `benthic-sql`: the verbs `sql` and `table` of `benthic`, as a separate program.

mod commands;

use benthic_program::{run_verbs, verbs};
use clap::Subcommand;
use commands::{sql, table};
use std::process::ExitCode;

#[derive(Subcommand)]
enum Command {
    /// Query tables, Parquet objects and local files with SQL
    Sql(sql::SqlArgs),
    /// Create, load, inspect and remove tables
    #[command(subcommand, after_help = table::EXAMPLES)]
    Table(table::TableCommand),
}

fn main() -> ExitCode {
    let command = verbs::<Command>(
        "benthic-sql",
        "Tables and SQL; on a cluster, parts of queries run beside the objects",
    );
    let matches = command.clone().try_get_matches();
    run_verbs(command, matches, benthic_sql::classes(), async |verb, session| match verb {
        Command::Sql(args) => sql::run(args, session).await,
        Command::Table(command) => table::run(command, session).await,
    })
}
