//! `benthic-s3`: the verb `s3` of `benthic`, as a separate program.

mod commands;

use benthic_program::{run_verbs, verbs};
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Subcommand)]
enum Command {
    /// Serve S3, and administer its accounts, keys and buckets
    #[command(after_help = commands::EXAMPLES)]
    S3(commands::S3Args),
}

fn main() -> ExitCode {
    let command = verbs::<Command>("benthic-s3", "S3 over the objects of a store");
    let matches = commands::config::parse(command.clone(), std::env::args_os().collect());
    run_verbs(command, matches, benthic_classes::registry(), async |verb, session| match verb {
        Command::S3(args) => commands::run(args, session).await,
    })
}
