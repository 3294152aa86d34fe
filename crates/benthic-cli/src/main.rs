//! `benthic`: programmable object storage from the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    benthic_cli::main()
}
