//! DuckDB and Polars, in a process of Python.

use bench_report::Outcome;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A process that answers queries of TPC-H.
pub struct Others {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Others {
    /// Starts it over a directory with a directory of Parquet files for each table.
    pub fn start(python: &Path, files: &Path) -> Outcome<Others> {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
        let mut command = Command::new(python);
        command.arg(format!("{root}/bench/table/others.py")).arg(files);
        command.arg(format!("{root}/crates/benthic-sql/tests/tpch"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(asks), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a process without pipes".into());
        };
        Ok(Others { child, asks, answers: BufReader::new(answers) })
    }

    /// Seconds that a query takes in one of them.
    pub fn run(&mut self, which: &str, number: usize) -> Outcome<f64> {
        writeln!(self.asks, "{which} {number}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        answer.trim().parse().map_err(|_| format!("{which} failed in q{number}: {answer:?}").into())
    }
}

impl Drop for Others {
    fn drop(&mut self) {
        // It has nothing to lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
