//! `benthic table alter`: changes the columns of a table.

use super::{TableAddress, insert_held, line};
use benthic_core::{Error, ErrorKind, Result};
use benthic_program::exit::{Failure, Outcome};
use benthic_program::session::Session;
use benthic_sql::syntax::parse_column;
use benthic_table::Alter;
use clap::Args;
use serde_json::Value;

/// Arguments of `benthic table alter`.
#[derive(Args)]
#[command(after_help = "\
No data are rewritten. Several options of one kind are done in order, all or none. A column is widened to a larger \
integer or float, or a decimal of more digits and the same scale.

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
    /// Add a column, which is null in the rows that are there
    #[arg(long, value_name = "NAME TYPE")]
    add: Vec<String>,
    /// Remove a column; older snapshots have it still
    #[arg(long, value_name = "NAME")]
    drop: Vec<String>,
    /// Give a column another name
    #[arg(long, value_name = "FROM:TO")]
    rename: Vec<String>,
    /// Give a column a larger type
    #[arg(long, value_name = "NAME TYPE")]
    widen: Vec<String>,
}

impl Changes {
    fn parse(self) -> Result<Vec<Alter>> {
        let mut changes = Vec::new();
        for text in self.add {
            let field = parse_column(&text)?;
            if !field.is_nullable() {
                let message = "an added column is null in the rows that are there; leave out 'not null'";
                return Err(Error::new(ErrorKind::InvalidArgument, message).with("got", text));
            }
            changes.push(Alter::Add { name: field.name().clone(), data_type: field.data_type().clone() });
        }
        changes.extend(self.drop.into_iter().map(|name| Alter::Drop { name }));
        for text in self.rename {
            let Some((from, to)) = text.split_once(':') else {
                return Err(Error::new(ErrorKind::InvalidArgument, "a renaming is FROM:TO").with("got", text));
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
        return Err(Failure::Usage("say what to change: --add, --drop, --rename or --widen".to_owned()));
    }
    let snapshot = args.table.open(session).await?.alter(&changes).await?;
    let columns = super::count(snapshot.schema().columns().len() as u64, "column");
    session.out.result(format_args!("{}: {columns}, snapshot {}", line(&args.table), snapshot.id()), || {
        let mut fields = args.table.fields();
        insert_held(&mut fields, &snapshot);
        Value::Object(fields)
    })
}
