//! `benthic table alter`: changes the columns of a table.

use super::{TableAddress, line};
use benthic_core::{Error, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_sql::syntax::parse_column;
use benthic_table::Alter;
use clap::Args;
use serde_json::Value;

/// Arguments of `benthic table alter`.
#[derive(Args)]
#[command(after_help = "\
The command rewrites no data. Several options of one kind apply in order, all or none. --widen takes a larger integer \
or float type, or a decimal type with more digits and the same scale.

Examples:
  benthic table alter lake/trips --add 'tip decimal(8, 2)'
  benthic table alter lake/trips --rename fare:price
  benthic table alter lake/trips --widen 'distance float64'
  benthic table alter lake/trips --drop tip")]
pub struct AlterArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    #[command(flatten)]
    changes: Changes,
}

#[derive(Args)]
#[group(required = true, multiple = false)]
struct Changes {
    /// Add a column; it is null in existing rows
    #[arg(long, value_name = "NAME TYPE")]
    add: Vec<String>,
    /// Remove a column; older snapshots keep it
    #[arg(long, value_name = "NAME")]
    drop: Vec<String>,
    /// Rename a column
    #[arg(long, value_name = "FROM:TO")]
    rename: Vec<String>,
    /// Change a column to a larger type
    #[arg(long, value_name = "NAME TYPE")]
    widen: Vec<String>,
}

impl Changes {
    fn parse(self) -> Result<Vec<Alter>> {
        let mut changes = Vec::new();
        for text in self.add {
            let field = parse_column(&text)?;
            if !field.is_nullable() {
                let message = "an added column is null in existing rows; leave out 'not null'";
                return Err(Error::invalid_argument(message).with("got", text));
            }
            changes.push(Alter::Add { name: field.name().clone(), data_type: field.data_type().clone() });
        }
        changes.extend(self.drop.into_iter().map(|name| Alter::Drop { name }));
        for text in self.rename {
            let Some((from, to)) = text.split_once(':') else {
                return Err(
                    Error::invalid_argument("the colon is missing; write --rename FROM:TO").with("got", text)
                );
            };
            changes.push(Alter::Rename { from: from.to_owned(), to: to.to_owned() });
        }
        for text in self.widen {
            let field = parse_column(&text)?;
            changes.push(Alter::Widen { name: field.name().clone(), data_type: field.data_type().clone() });
        }
        Ok(changes)
    }
}

pub async fn run(args: AlterArgs, session: &Session) -> Outcome {
    let changes = args.changes.parse()?;
    if changes.is_empty() {
        return Err(Failure::Usage("nothing to change; give --add, --drop, --rename or --widen".to_owned()));
    }
    let snapshot = args.table.open(session).await?.alter(&changes).await?;
    let columns = super::count(snapshot.schema().columns().len() as u64, "column");
    session.out.result(format_args!("{}: {columns}, snapshot {}", line(&args.table), snapshot.id()), || {
        Value::Object(args.table.size_fields(&snapshot))
    })
}
