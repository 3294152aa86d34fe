//! The program `benthic-catalog`: the verb `catalog` of `benthic`, as a separate program.

mod commands;

use benthic_program::{run_verbs, verbs};
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Subcommand)]
enum Command {
    /// Serve tables to programs that read Iceberg
    #[command(subcommand, after_help = commands::EXAMPLES)]
    Catalog(commands::CatalogCommand),
}

fn main() -> ExitCode {
    let command = verbs::<Command>("benthic-catalog", "Tables for programs that read Iceberg");
    let matches = command.clone().try_get_matches();
    run_verbs(command, matches, benthic_classes::registry(), async |verb, session| match verb {
        Command::Catalog(command) => commands::run(command, session).await,
    })
}
