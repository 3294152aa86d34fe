//! `benthic table compact`: writes small objects, and objects with deleted rows, again as fewer
//! whole ones.

use super::limits::LimitArgs;
use super::rewriting::{Done, rewrite_groups};
use super::{TableAddress, column_name, count, line};
use benthic_core::Result;
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use benthic_sql::cluster::Cluster;
use benthic_table::{SnapshotSelector, TableSchema};
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic table compact`.
#[derive(Args)]
#[command(after_help = "\
Chooses objects with deleted rows, and objects below half of the table's object size if fewer can be made of them. \
Commits about 1 GiB at a time: an interrupted compaction keeps what it has committed, and the next one continues. \
Queries and appends run meanwhile. `benthic table vacuum` removes the old objects.

--cluster-by writes all objects again. Each new object gets rows with near values of the columns, so that a query with a \
condition on any of them reads few objects. Rows of one commit are sorted together, in temporary files \
that are not compressed. The setting is not kept: rows that are appended later are clustered by the next such command. \
--z-order does the same in another order, in which the row groups and pages of an object have a range of each column, too, unless \
the table has a sort order.

Examples:
  benthic table compact lake/trips
  benthic table compact lake/trips --all --rate 50MiB
  benthic table compact lake/trips --cluster-by city,day
  benthic table compact lake/trips --z-order city,day --rate 50MiB")]
pub struct CompactArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// Write all objects again
    #[arg(long)]
    all: bool,
    /// Cluster the rows of all objects by up to four columns
    #[arg(long, value_name = "COLUMN,...", value_delimiter = ',', value_parser = column_name)]
    cluster_by: Option<Vec<String>>,
    /// Cluster the rows of all objects by two to four columns, in Z-order
    #[arg(
        long,
        value_name = "COLUMN,...",
        value_delimiter = ',',
        value_parser = column_name,
        conflicts_with = "cluster_by"
    )]
    z_order: Option<Vec<String>>,
    #[command(flatten)]
    limits: LimitArgs,
}

impl CompactArgs {
    fn cluster(&self, schema: &TableSchema) -> Result<Option<Cluster>> {
        let memory_bytes = self.limits.options().buffer_bytes_max;
        match (&self.cluster_by, &self.z_order) {
            (Some(names), _) => Cluster::new(names.clone(), memory_bytes, schema).map(Some),
            (None, Some(names)) => Cluster::z_order(names.clone(), memory_bytes, schema).map(Some),
            (None, None) => Ok(None),
        }
    }
}

pub async fn run(args: CompactArgs, session: &Session) -> Outcome {
    let table = args.table.open(session).await?;
    let start = table.snapshot(SnapshotSelector::Current).await?;
    let cluster = args.cluster(start.schema()).map_err(|error| error.with("table", &args.table))?;
    let groups = start.to_compact(args.all || cluster.is_some(), &args.limits.options()).await?;
    let (mut done, label) = (Done::default(), format!("compacting {}", args.table));
    rewrite_groups(&table, &groups, cluster.as_ref(), &label, &args.limits, &mut done).await?;
    done.warn(session);
    if done.conflicts > 0 {
        let message = "other changes of the table prevented a part of the compaction; run the command again";
        session.out.warning(message);
    }
    let end = table.snapshot(SnapshotSelector::Current).await?;
    let text = format!(
        "{}: {}, {} were written again; {} now, {}",
        line(&args.table),
        count(done.objects, "object"),
        units::size(done.bytes),
        count(end.objects(), "object"),
        units::size(end.data_bytes()),
    );
    session.out.result(text, || {
        let mut fields = args.table.size_fields(&end);
        fields.insert("objects_rewritten".to_owned(), json!(done.objects));
        fields.insert("size_bytes_rewritten".to_owned(), json!(done.bytes));
        fields.insert("commits".to_owned(), json!(done.commits));
        Value::Object(fields)
    })
}
