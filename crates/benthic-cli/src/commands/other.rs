//! `benthic sql`, `benthic table`, `benthic array`, `benthic catalog`, `benthic s3` and `benthic
//! csi`. These verbs run separate programs, because a query engine takes long to build, and most
//! work needs neither it nor a gateway nor a driver.

use benthic_core::{Action, Error, Result};
use benthic_program::definition::Definition;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use clap::Args;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub const SQL_EXAMPLES: &str = "`benthic sql --help` lists the options.\n\nExamples:\n  \
    benthic sql 'SELECT count(*) FROM lake.trips WHERE distance > 30'\n  \
    benthic sql --object lake/trips.parquet 'SELECT count(*) FROM object WHERE distance > 30'";
pub const TABLE_EXAMPLES: &str = "`benthic table --help` lists the verbs.\n\nExamples:\n  \
    benthic table create lake/trips trips-*.parquet\n  \
    benthic table ls lake";
pub const ARRAY_EXAMPLES: &str = "`benthic array --help` lists the verbs.\n\nExamples:\n  \
    benthic array create climate/era5 --from era5.nc\n  \
    benthic array reduce climate/era5/t2m mean --over time";
pub const S3_EXAMPLES: &str = "`benthic s3 --help` lists the verbs.\n\nExamples:\n  \
    benthic s3 serve\n  \
    benthic s3 usage";
pub const CATALOG_EXAMPLES: &str = "`benthic catalog serve --help` lists the options.\n\nExample:\n  \
    benthic catalog serve";
pub const CSI_EXAMPLES: &str = "`benthic csi --help` lists the options.\n\nExample:\n  \
    benthic --store ceph: csi --endpoint unix:///csi/csi.sock --node-id worker-1";

/// A program in the same directory as this one.
pub struct Program {
    pub name: &'static str,
    /// The error message if the program is missing.
    missing: &'static str,
}

pub const SQL: Program = Program {
    name: "benthic-sql",
    missing: "the program for tables is missing; Debian's package benthic has it, and `cargo build --release -p benthic-sql-cli` builds it",
};
pub const ARRAY: Program = Program {
    name: "benthic-array",
    missing: "the program for arrays is missing; Debian's package benthic has it, and `make array` builds it",
};
pub const S3: Program = Program {
    name: "benthic-s3",
    missing: "the program for S3 is missing; Debian's package benthic has it, and `make s3` builds it",
};
pub const CATALOG: Program = Program {
    name: "benthic-catalog",
    missing: "the program for Iceberg is missing; Debian's package benthic has it, and `make catalog` builds it",
};
pub const CSI: Program = Program {
    name: "benthic-csi",
    missing: "the program for CSI is missing; Debian's package benthic has it, and `make csi` builds it",
};

const PROGRAMS: [Program; 5] = [SQL, ARRAY, S3, CATALOG, CSI];

#[derive(Args)]
#[command(disable_help_flag = true)]
pub struct ProgramArgs {
    /// Options and arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
}

/// The error for a program that is missing.
pub fn missing(program: &Program) -> Error {
    Error::unsupported(program.missing)
}

/// Replaces this process with the other program. Returns only on failure.
pub fn run(program: &Program, verb: &str, args: ProgramArgs, session: &Session) -> Outcome {
    let path = program.path()?;
    let mut command = Command::new(&path);
    command.arg("--store").arg(session.uri());
    if session.out.is_json() {
        command.arg("--json");
    }
    let error = command.arg(verb).args(args.args).exec();
    if error.kind() == std::io::ErrorKind::NotFound {
        return Err(missing(program).with("program", path.display()).into());
    }
    Err(cannot_start(error, &path).into())
}

/// Lets the other programs, as far as they are installed, write their manual pages.
pub fn write_pages(dir: &Path) -> Outcome {
    for program in PROGRAMS {
        let path = program.path()?;
        if !path.exists() {
            continue;
        }
        let status = Command::new(&path).arg("man").arg(dir).status();
        let status = status.map_err(|error| cannot_start(error, &path))?;
        if !status.success() {
            let message = "the program did not write its manual pages; install programs of the same build";
            return Err(Error::unsupported(message).with("program", path.display()).into());
        }
    }
    Ok(())
}

/// The verbs of the other programs, as far as they are installed. A program that does not answer
/// has another build; its verbs are completed without their options.
pub fn definitions() -> Vec<Definition> {
    let of_program = |program: &Program| {
        let output = Command::new(program.path().ok()?).arg("definition").output().ok()?;
        serde_json::from_slice::<Vec<Definition>>(&output.stdout).ok()
    };
    PROGRAMS.iter().filter_map(of_program).flatten().collect()
}

impl Program {
    fn path(&self) -> Result<PathBuf> {
        let here = std::env::current_exe()
            .map_err(|error| Error::io(Action::Admin, "cannot find the directory of this program", error))?;
        Ok(here.with_file_name(self.name))
    }
}

fn cannot_start(error: std::io::Error, program: &Path) -> Error {
    Error::io(Action::Admin, "cannot start the program", error).with("program", program.display())
}
