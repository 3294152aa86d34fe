//! `benthic table show`: prints the size, partitioning and columns of a snapshot.

use super::layout::{bloom_columns, describe_groups, layout_fields, sorted_by};
use super::{SnapshotName, TableAddress, count, line, time, with_separators};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_program::units;
use benthic_sql::syntax::{show_column, show_partitioning, show_type};
use benthic_table::SnapshotSelector;
use benthic_table::head::Head;
use benthic_table::{IndexKind, Snapshot};
use clap::Args;
use serde_json::{Value, json};

/// Arguments of `benthic table show`.
#[derive(Args)]
#[command(
    after_help = "Each column is printed after its number, in the syntax of --schema of `benthic table create`. The \
    number stays the same when the column is renamed.\n\n\
    Examples:\n  benthic table show lake/trips\n  benthic table show lake/trips --snapshot 3"
)]
pub struct ShowArgs {
    /// The table: POOL/TABLE
    table: TableAddress,
    /// Show this snapshot instead of the newest: its number or a tag
    #[arg(long, value_name = "SNAPSHOT")]
    snapshot: Option<SnapshotName>,
}

pub async fn run(args: ShowArgs, session: &Session) -> Outcome {
    let table = args.table.open(session).await?;
    let at = args.snapshot.as_ref().map_or(SnapshotSelector::Current, SnapshotName::selector);
    let snapshot = table.snapshot(at).await?;
    let head = table.head().await?;
    session.out.result(page(&args.table, &head, &snapshot), || value(&args.table, &head, &snapshot))
}

fn page(address: &TableAddress, head: &Head, snapshot: &Snapshot) -> String {
    let schema = snapshot.schema();
    let newest = head.snapshots.last().map_or(0, |newest| newest.id);
    let (operation, time) = (snapshot.operation().name(), time(snapshot.time_ms()));
    let sort = sorted_by(&head.layout, schema).join(", ");
    let bloom = bloom_columns(&head.layout, schema).join(", ");
    let groups = describe_groups(&head.layout, schema);
    let of_values = indexes_of(snapshot, false).map(|columns| format!("({})", columns.join(", ")));
    let of_words = indexes_of(snapshot, true).map(|columns| format!("text({})", columns.join(", ")));
    let indexes = of_values.chain(of_words).collect::<Vec<_>>().join(", ");
    let rows = [
        ("id", head.id.to_string()),
        ("snapshot", format!("{} of {newest}, {operation}, {time}", snapshot.id())),
        ("rows", with_separators(snapshot.rows())),
        (
            "objects",
            format!("{}, {}", with_separators(snapshot.objects()), units::size(snapshot.data_bytes())),
        ),
        ("partitioned by", show_partitioning(&head.partitioning, schema)),
        ("sorted by", if sort.is_empty() { "nothing".to_owned() } else { sort }),
        ("indexes", if indexes.is_empty() { "none".to_owned() } else { indexes }),
        ("Bloom filters", if bloom.is_empty() { "none".to_owned() } else { bloom }),
        ("column groups", if groups.is_empty() { "none".to_owned() } else { groups }),
        ("object size", units::size(head.layout.object_bytes)),
        ("codec", head.layout.codec.to_string()),
        ("row-group size", units::size(head.layout.row_group_bytes)),
        ("active writers", with_separators(head.intents.len() as u64)),
    ];
    let mut text = line(address);
    for (name, value) in rows {
        text += &format!("\n  {name:<16} {}", line(value));
    }
    text += &format!("\n  {}", count(schema.columns().len() as u64, "column"));
    for column in schema.columns() {
        text += &format!("\n  {:>6}  {}", column.id, line(show_column(column)));
    }
    text
}

/// The columns of each index, of words or of others.
fn indexes_of(snapshot: &Snapshot, are_of_words: bool) -> impl Iterator<Item = Vec<String>> {
    let name = move |id: &u32| snapshot.schema().by_id(*id).map(|column| column.name.clone());
    let of_kind = snapshot.indexes().filter(move |index| (index.kind == IndexKind::Words) == are_of_words);
    of_kind.map(move |index| index.columns.iter().filter_map(name).collect())
}

fn value(address: &TableAddress, head: &Head, snapshot: &Snapshot) -> Value {
    let schema = snapshot.schema();
    let mut fields = address.size_fields(snapshot);
    fields.insert("id".to_owned(), json!(head.id.to_string()));
    fields.insert("operation".to_owned(), json!(snapshot.operation().name()));
    fields.insert("time_unix_ms".to_owned(), json!(snapshot.time_ms()));
    fields.insert("partition_by".to_owned(), json!(show_partitioning(&head.partitioning, schema)));
    fields.extend(layout_fields(&head.layout, schema));
    let of_values: Vec<Vec<String>> = indexes_of(snapshot, false).collect();
    fields.insert("indexes".to_owned(), json!(of_values));
    let of_words: Vec<String> = indexes_of(snapshot, true).flatten().collect();
    fields.insert("text_indexes".to_owned(), json!(of_words));
    fields.insert("writers".to_owned(), json!(head.intents.len()));
    let columns = schema.columns().iter().map(|column| {
        json!({
            "id": column.id,
            "name": column.name,
            "type": show_type(&column.data_type),
            "nullable": column.nullable,
        })
    });
    fields.insert("columns".to_owned(), columns.collect());
    Value::Object(fields)
}
