//! `benthic-csi`: the verb `csi` of `benthic`, as a separate program.

mod commands;

use benthic_program::{run_verbs, verbs};
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Subcommand)]
enum Command {
    /// Serve volumes to Kubernetes with the Container Storage Interface
    Csi(commands::CsiArgs),
}

fn main() -> ExitCode {
    let command = verbs::<Command>("benthic-csi", "A CSI driver over the block images of a store");
    let matches = command.clone().try_get_matches();
    run_verbs(command, matches, benthic_classes::registry(), async |verb, session| match verb {
        Command::Csi(args) => commands::run(args, session).await,
    })
}
