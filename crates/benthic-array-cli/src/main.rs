//! The program `benthic-array`: the verb `array` of `benthic`, as a separate program.

mod commands;
mod directory;
mod load;
mod mask;
mod output;
mod picture;
mod reference;
mod selection;
mod serve;
mod source;
mod weights;

use benthic_array::ArrayClass;
use benthic_program::{run_verbs, verbs};
use clap::Subcommand;
use std::process::ExitCode;

#[derive(Subcommand)]
enum Command {
    /// Create, read, reduce, check, export and serve arrays
    #[command(subcommand, after_help = commands::EXAMPLES)]
    Array(commands::ArrayCommand),
}

fn main() -> ExitCode {
    let command = verbs::<Command>(
        "benthic-array",
        "Arrays in Zarr's format; on a cluster, reductions run beside the chunks",
    );
    let matches = command.clone().try_get_matches();
    // The server looks up accounts with the built-in classes.
    let classes = benthic_classes::registry().with(ArrayClass);
    run_verbs(command, matches, classes, async |verb, session| match verb {
        Command::Array(command) => commands::run(command, session).await,
    })
}
