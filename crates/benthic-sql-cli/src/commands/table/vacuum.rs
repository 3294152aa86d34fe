//! `benthic table vacuum`: removes old snapshots and the remains of interrupted loads.

use super::{TableAddress, count, line};
use benthic_core::Environment;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_table::VacuumOptions;
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic table vacuum`.
#[derive(Args)]
#[command(after_help = "\
Keeps the newest --keep-snapshots snapshots, all snapshots younger than --keep, all with a tag, and always the newest one. Removes \
objects that no snapshot contains, and the remains of loads that were killed more than a day ago. Does not disturb \
loads or queries of kept snapshots.

Examples:
  benthic table vacuum lake/trips
  benthic table vacuum lake/trips --keep-snapshots 10 --keep 7d")]
pub struct VacuumArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// Number of newest snapshots to keep
    #[arg(long, value_name = "N", default_value_t = 1)]
    keep_snapshots: usize,
    /// Keep snapshots younger than this: a number with s, m, h or d
    #[arg(long, value_name = "AGE", value_parser = parse_age, default_value = "24h")]
    keep: u64,
}

/// Parses an age, and returns milliseconds.
fn parse_age(text: &str) -> Result<u64, String> {
    let units = [("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000_u64)];
    let digits = units.iter().find_map(|(unit, ms)| text.strip_suffix(unit).map(|digits| (digits, *ms)));
    digits
        .and_then(|(digits, ms)| digits.parse::<u64>().ok()?.checked_mul(ms))
        .ok_or_else(|| "an age is a number followed by s, m, h or d, such as 24h".to_owned())
}

pub async fn run(args: VacuumArgs, session: &Session) -> Outcome {
    let pool = args.table.pool(session).await?;
    let options =
        VacuumOptions { keep_snapshots: args.keep_snapshots, keep_ms: args.keep, ..VacuumOptions::default() };
    let done = benthic_table::vacuum(pool, &args.table.table, &options, &Environment::default()).await;
    let done = match done {
        Ok(done) => done,
        Err(error) => return Err(args.table.with_hint(session, error).await),
    };
    let mut text = format!(
        "{}: {} and {} removed",
        line(&args.table),
        count(done.snapshots as u64, "snapshot"),
        count(done.objects, "object")
    );
    if done.writers > 0 {
        text += &format!(", {} given up", count(done.writers as u64, "writer"));
    }
    if done.dropped {
        text += ", the drop of the table is finished";
    }
    if done.foreign_objects > 0 {
        let strangers = count(done.foreign_objects, "object");
        session.out.warning(format_args!(
            "{strangers} in the table's namespace do not belong to the table and stay there"
        ));
    }
    session.out.result(text, || {
        let mut fields = args.table.fields();
        fields.insert("snapshots_removed".to_owned(), json!(done.snapshots));
        fields.insert("objects_removed".to_owned(), json!(done.objects));
        fields.insert("writers_given_up".to_owned(), json!(done.writers));
        fields.insert("strangers".to_owned(), json!(done.foreign_objects));
        fields.insert("dropped".to_owned(), json!(done.dropped));
        Value::Object(fields)
    })
}
