//! Loading files with the program.

use crate::Args;
use bench_harness::process;
use bench_harness::report::{Aim, Row, Section};
use bench_harness::{Outcome, seconds, start};
use benthic_sql::experiment::tpch;
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
use std::process::Command;

pub fn run(args: &Args) -> Outcome<Section> {
    let work = tempfile::Builder::new().prefix("benthic-bench-").tempdir()?;
    let (parquet, csv) = (work.path().join("lineitem.parquet"), work.path().join("lineitem.csv"));
    let rows = write(args.scale.min(0.5), &parquet, &csv)?;
    let benthic = |command: [&str; 2]| {
        let mut program = Command::new(&args.benthic);
        program.env("BENTHIC_STORE", format!("file:{}", work.path().join("store").display())).args(command);
        program
    };
    process::run(benthic(["pool", "create"]).arg("load"))?;
    let mut measured = Vec::new();
    for (what, file) in [("Parquet", &parquet), ("CSV", &csv)] {
        let size_mib = fs::metadata(file)?.len() as f64 / (1024.0 * 1024.0);
        let (mut rows_per_s, mut mib_per_s) = (Vec::new(), Vec::new());
        for round in 0..args.rounds.min(3) {
            let stopwatch = start();
            process::run(benthic(["table", "create"]).arg(format!("load/{what}{round}")).arg(file))?;
            let took_s = seconds(stopwatch);
            rows_per_s.push(rows as f64 / took_s / 1e6);
            mib_per_s.push(size_mib / took_s);
        }
        measured.push(Row::alone(format!("{what}, rows"), "million/s", rows_per_s, Aim::None));
        measured.push(Row::alone(format!("{what}, bytes of the file"), "MiB/s", mib_per_s, Aim::None));
    }
    Ok(Section {
        title: "Loading lineitem into an embedded store",
        note: format!(
            "`benthic table create POOL/TABLE FILE`, {rows} rows from one file, durable when the program ends."
        ),
        rows: measured,
    })
}

/// Writes lineitem in two formats, and returns its number of rows.
fn write(scale: f64, parquet: &Path, csv: &Path) -> Outcome<usize> {
    let (_, batches) = tpch::tables(scale).into_iter().last().ok_or("no lineitem")?;
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut to_parquet = ArrowWriter::try_new(File::create(parquet)?, batches.schema(), Some(properties))?;
    let mut to_csv = arrow::csv::WriterBuilder::new().build(BufWriter::new(File::create(csv)?));
    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        rows += batch.num_rows();
        to_parquet.write(&batch)?;
        to_csv.write(&batch)?;
    }
    to_parquet.close()?;
    Ok(rows)
}
