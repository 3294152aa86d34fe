//! `benthic sql` and `benthic table`: verbs of another program, because a query engine takes long to build and most work
//! needs none.

use crate::exit::Outcome;
use crate::store::Session;
use benthic_core::{Action, Error, ErrorKind};
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Examples of `benthic sql`.
pub const SQL_EXAMPLES: &str = "`benthic sql --help` lists the options.\n\nExamples:\n  \
    benthic sql 'SELECT count(*) FROM lake.trips WHERE distance > 30'\n  \
    benthic sql --object lake/trips.parquet 'SELECT count(*) FROM object WHERE distance > 30'";
/// Examples of `benthic table`.
pub const TABLE_EXAMPLES: &str = "`benthic table --help` lists the verbs.\n\nExamples:\n  \
    benthic table create lake/trips trips-*.parquet\n  \
    benthic table ls lake";

/// Arguments that are the other program's.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct HandedOver {
    /// Options and arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Becomes `benthic-sql`; returns only if that fails.
pub fn run(verb: &str, given: HandedOver, session: &Session) -> Outcome {
    let here = std::env::current_exe()
        .map_err(|error| Error::io(Action::Admin, "cannot find the directory of this program", error))?;
    let program = here.with_file_name("benthic-sql");
    let mut command = Command::new(&program);
    command.arg("--store").arg(session.uri());
    if session.out.is_json() {
        command.arg("--json");
    }
    let error = command.arg(verb).args(given.args).exec();
    if error.kind() == std::io::ErrorKind::NotFound {
        let message = "the program for tables is not there; `cargo build --release -p benthic-sql` makes it";
        return Err(Error::new(ErrorKind::Unsupported, message).with("program", program.display()).into());
    }
    let error = Error::io(Action::Admin, "cannot start the program for tables", error);
    Err(error.with("program", program.display()).into())
}
