//! `benthic placement measure`: measures reads and writes of a pool from several places, one place
//! after the other.

use super::cluster;
use crate::commands::bench;
use crate::places::Places;
use benthic_core::{Error, Result};
use benthic_program::exit::Outcome;
use benthic_program::progress::Progress;
use benthic_program::session::Session;
use benthic_program::units;
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;

/// The object sizes: a small one to measure latency, and a large one to measure throughput.
const SMALL: &str = "4KiB";
const LARGE: &str = "4MiB";
/// Number of objects of each size to read.
const SMALL_COUNT: u32 = 256;
const LARGE_COUNT: u32 = 16;

#[derive(Args)]
#[command(
    after_help = "The command measures at one place after the other, with one operation in flight: reads and writes of objects \
    of 4 KiB and 4 MiB in the pool's namespace benthic-bench. It removes the objects at the end.\n\nExamples:\n  \
    benthic placement measure --pool photos --from um,msu,wsu\n  \
    benthic placement measure --pool photos --from alpha,beta --via 'ssh {}' --store 'ceph:?read=near'"
)]
pub struct MeasureArgs {
    /// The pool
    #[arg(long)]
    pool: String,
    #[command(flatten)]
    places: Places,
    /// Seconds for each of the four measurements at a place
    #[arg(long, value_name = "S", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=3_600))]
    seconds: u32,
}

struct Measurement {
    place: String,
    small_read_ms: f64,
    small_write_ms: f64,
    large_read_mib_per_s: f64,
    large_write_mib_per_s: f64,
}

pub async fn run(args: MeasureArgs, session: &Session) -> Outcome {
    args.places.check()?;
    if args.places.from.is_empty() {
        return Err(Error::invalid_argument("name the places to measure from, such as --from um,msu").into());
    }
    // Check first that the store is a Ceph cluster and the pool exists.
    cluster(session).await?;
    let pool = session.pool(&args.pool).await?;
    let label = format!("measure{}x", std::process::id());
    let measured = measure(&args, &label, session).await;
    let removed = bench::remove(&pool, &label).await;
    let rows = measured?;
    removed?;
    session.out.result(table(&args.pool, &rows), || {
        let places = rows.iter().map(|row| {
            json!({
                "place": row.place,
                "read_4_kib_ms": row.small_read_ms,
                "write_4_kib_ms": row.small_write_ms,
                "read_4_mib_mib_per_s": row.large_read_mib_per_s,
                "write_4_mib_mib_per_s": row.large_write_mib_per_s,
            })
        });
        json!({ "pool": args.pool, "places": places.collect::<Vec<_>>() })
    })
}

async fn measure(args: &MeasureArgs, label: &str, session: &Session) -> Result<Vec<Measurement>> {
    let (pool, seconds) = (args.pool.as_str(), args.seconds.to_string());
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
    // All places read the same objects, so any place can write them.
    for (size, count) in [(SMALL, SMALL_COUNT), (LARGE, LARGE_COUNT)] {
        let (label, count) = (format!("{label}{size}"), count.to_string());
        let write = ["bench", "write", pool, "--size", size, "--count", &count, "--keep", "--label", &label];
        args.places.run(&args.places.from[0], session, words(&write)).await?;
    }
    let progress = Progress::objects("measuring");
    let mut all = Vec::new();
    for place in &args.places.from {
        let bench = async |name: &str, size: &str| -> Result<Value> {
            let label = format!("{label}{size}");
            let mut args_of =
                vec!["bench", name, pool, "--in-flight", "1", "--seconds", &seconds, "--label", &label];
            if name == "write" {
                args_of.extend(["--size", size]);
            }
            let found = args.places.run(place, session, words(&args_of)).await;
            progress.advance(1);
            found
        };
        let number = |found: &Value, name: &str| found[name].as_f64().unwrap_or(f64::NAN);
        all.push(Measurement {
            small_read_ms: number(&bench("rand", SMALL).await?, "latency_ms_p50"),
            small_write_ms: number(&bench("write", SMALL).await?, "latency_ms_p50"),
            large_read_mib_per_s: number(&bench("rand", LARGE).await?, "mib_per_s"),
            large_write_mib_per_s: number(&bench("write", LARGE).await?, "mib_per_s"),
            place: place.clone(),
        });
    }
    Ok(all)
}

fn table(pool: &str, rows: &[Measurement]) -> String {
    let mut text = format!(
        "{}, one operation in flight\n  {:<16} {:>14} {:>14} {:>16} {:>16}",
        units::one_line(pool),
        "from",
        "read 4 KiB",
        "write 4 KiB",
        "read 4 MiB",
        "write 4 MiB"
    );
    for row in rows {
        let _ = write!(
            text,
            "\n  {:<16} {:>11.3} ms {:>11.3} ms {:>10.1} MiB/s {:>10.1} MiB/s",
            row.place,
            row.small_read_ms,
            row.small_write_ms,
            row.large_read_mib_per_s,
            row.large_write_mib_per_s
        );
    }
    text
}
