//! `benthic sql`: another program, because a query engine takes long to build and most work needs none.

use crate::exit::Outcome;
use crate::store::Session;
use benthic_core::{Action, Error, ErrorKind};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Arguments of `benthic sql`.
#[derive(Args)]
#[command(after_help = "The program `benthic-sql`, which is beside this one, gets the arguments; \
    `benthic-sql --help` lists them.\n\nExamples:\n  \
    benthic sql --object lake/trips.parquet 'SELECT count(*) FROM object WHERE distance > 30'\n  \
    benthic sql --object lake/trips.parquet 'EXPLAIN ANALYZE SELECT max(fare) FROM object WHERE distance > 30'")]
pub struct SqlArgs {
    /// Options and the query
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Becomes `benthic-sql`; returns only if that fails.
pub fn run(args: SqlArgs, session: &Session) -> Outcome {
    let here = std::env::current_exe()
        .map_err(|error| Error::io(Action::Admin, "cannot find the directory of this program", error))?;
    let program = here.with_file_name("benthic-sql");
    let mut command = Command::new(&program);
    command.arg("--store").arg(session.uri());
    if session.out.is_json() {
        command.args(["--output", "json"]);
    }
    let error = command.args(args.args).exec();
    if error.kind() == std::io::ErrorKind::NotFound {
        let message = "the program for queries is not there; `cargo build --release -p benthic-sql` makes it";
        return Err(Error::new(ErrorKind::Unsupported, message).with("program", program.display()).into());
    }
    let error = Error::io(Action::Admin, "cannot start the program for queries", error);
    Err(error.with("program", program.display()).into())
}
