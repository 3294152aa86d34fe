//! `benthic sql`, `benthic table` and `benthic s3`. These verbs run separate programs, because a
//! query engine takes long to build, and most work needs neither it nor a gateway.

use benthic_core::{Action, Error, ErrorKind};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Examples in the help of `benthic sql`.
pub const SQL_EXAMPLES: &str = "`benthic sql --help` lists the options.\n\nExamples:\n  \
    benthic sql 'SELECT count(*) FROM lake.trips WHERE distance > 30'\n  \
    benthic sql --object lake/trips.parquet 'SELECT count(*) FROM object WHERE distance > 30'";
/// Examples in the help of `benthic table`.
pub const TABLE_EXAMPLES: &str = "`benthic table --help` lists the verbs.\n\nExamples:\n  \
    benthic table create lake/trips trips-*.parquet\n  \
    benthic table ls lake";

/// Examples in the help of `benthic s3`.
pub const S3_EXAMPLES: &str = "`benthic s3 --help` lists the verbs.\n\nExamples:\n  \
    benthic s3 serve\n  \
    benthic s3 usage";

/// A program in the same directory as this one.
pub struct Other {
    name: &'static str,
    missing: &'static str,
}

/// The program for tables and SQL.
pub const SQL: Other = Other {
    name: "benthic-sql",
    missing: "the program for tables is not there; `cargo build --release -p benthic-sql-cli` makes it",
};
/// The program for S3.
pub const S3: Other =
    Other { name: "benthic-s3", missing: "the program for S3 is not there; `make s3` makes it" };

/// Arguments that are the other program's.
#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct HandedOver {
    /// Options and arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// Replaces this process with the other program. Returns only on failure.
pub fn run(other: &Other, verb: &str, given: HandedOver, session: &Session) -> Outcome {
    let here = std::env::current_exe()
        .map_err(|error| Error::io(Action::Admin, "cannot find the directory of this program", error))?;
    let program = here.with_file_name(other.name);
    let mut command = Command::new(&program);
    command.arg("--store").arg(session.uri());
    if session.out.is_json() {
        command.arg("--json");
    }
    let error = command.arg(verb).args(given.args).exec();
    if error.kind() == std::io::ErrorKind::NotFound {
        return Err(Error::new(ErrorKind::Unsupported, other.missing)
            .with("program", program.display())
            .into());
    }
    let error = Error::io(Action::Admin, "cannot start the program", error);
    Err(error.with("program", program.display()).into())
}
