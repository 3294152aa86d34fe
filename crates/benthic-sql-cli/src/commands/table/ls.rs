//! `benthic table ls`: lists tables.

use super::{TableAddress, line, time, with_separators};
use benthic_core::{Error, PoolAddress, Result};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::{interrupt, units};
use benthic_table::head::{Head, TableState};
use benthic_table::{Table, TableEntry};
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic table ls`.
#[derive(Args)]
#[command(after_help = "\
--long prints rows, objects, size, time of the newest snapshot, and state. Of a table in the state 'dropping', only the \
name is left; drop it again. A damaged table has the state 'damaged', and its error is printed on stderr.

Examples:
  benthic table ls
  benthic table ls lake --long")]
pub struct LsArgs {
    /// The pool; all pools if none is given
    pool: Option<String>,
    /// Also print rows, objects, size, time and state
    #[arg(short, long)]
    long: bool,
}

pub async fn run(args: LsArgs, session: &Session) -> Outcome {
    let pools = match args.pool {
        Some(pool) => vec![only_pool(&pool)?],
        None => session.store().await?.list_pools().await?,
    };
    let mut failed: Option<Error> = None;
    for pool in pools {
        interrupt::check()?;
        for TableEntry { name, head } in Table::list(session.pool(&pool).await?).await? {
            let address = TableAddress { pool: pool.clone(), table: name };
            match head.and_then(|head| Summary::of(&head)) {
                Ok(summary) => print_summary(session, &address, &summary, args.long)?,
                Err(error) => {
                    print_damaged(session, &address, &error, args.long)?;
                    // The program reports the last error when it exits. Print the earlier ones
                    // here.
                    if let Some(before) = failed.replace(error) {
                        session.out.error(&before, None);
                    }
                }
            }
        }
    }
    failed.map_or(Ok(()), |error| Err(error.into()))
}

fn only_pool(text: &str) -> Result<String> {
    let PoolAddress { pool, namespace } = text.parse()?;
    if namespace.is_empty() {
        return Ok(pool);
    }
    let message = "tables have no namespaces; name a pool";
    Err(Error::new(benthic_core::ErrorKind::InvalidArgument, message).with("got", text))
}

struct Summary {
    state: &'static str,
    id: String,
    snapshot: u64,
    time_ms: u64,
    rows: u64,
    objects: u64,
    size_bytes: u64,
}

impl Summary {
    fn of(head: &Head) -> Result<Summary> {
        let (snapshot, _) = head.current()?;
        let lists = head.lists_of(snapshot);
        let sum = |of: fn(&benthic_table::head::ListRef) -> u64| {
            lists.iter().fold(0, |sum: u64, list| sum.saturating_add(of(list)))
        };
        Ok(Summary {
            state: match head.state {
                TableState::Live => "live",
                TableState::Dropping => "dropping",
            },
            id: head.id.to_string(),
            snapshot: snapshot.id,
            time_ms: snapshot.time_ms,
            rows: sum(|list| list.rows),
            objects: sum(|list| list.objects),
            size_bytes: sum(|list| list.data_bytes),
        })
    }
}

fn print_summary(session: &Session, address: &TableAddress, summary: &Summary, long: bool) -> Outcome {
    let text = match long {
        true => format!(
            "{:>15} {:>9} {:>11} {} {:<8} {}",
            with_separators(summary.rows),
            with_separators(summary.objects),
            units::size(summary.size_bytes),
            time(summary.time_ms),
            summary.state,
            line(address)
        ),
        false => line(address),
    };
    session.out.result(text, || {
        let mut fields = address.fields();
        fields.insert("state".to_owned(), json!(summary.state));
        fields.insert("id".to_owned(), json!(summary.id));
        fields.insert("snapshot".to_owned(), json!(summary.snapshot));
        fields.insert("time_unix_ms".to_owned(), json!(summary.time_ms));
        fields.insert("rows".to_owned(), json!(summary.rows));
        fields.insert("objects".to_owned(), json!(summary.objects));
        fields.insert("size_bytes".to_owned(), json!(summary.size_bytes));
        Value::Object(fields)
    })
}

fn print_damaged(session: &Session, address: &TableAddress, error: &Error, long: bool) -> Outcome {
    let text = match long {
        true => format!("{:>15} {:>9} {:>11} {:<20} {:<8} {}", "-", "-", "-", "-", "damaged", line(address)),
        false => line(address),
    };
    session.out.result(text, || {
        let mut fields = address.fields();
        fields.insert("state".to_owned(), json!("damaged"));
        fields.insert("kind".to_owned(), json!(error.kind().row().name));
        fields.insert("message".to_owned(), json!(error.to_string()));
        Value::Object(fields)
    })
}
