//! Schema changes from Iceberg's JSON form.
//!
//! A client sends the schema that it wants, with the ids of the columns. The comparison with the
//! current schema by these ids gives the changes.

use super::definition::{column_type, fields, invalid, unsupported};
use super::types::iceberg_type;
use benthic_core::Result;
use benthic_table::{Alter, Column, TableSchema};
use serde_json::Value;

/// The changes that turn a table's schema into the one that a client wants. `next_id` is the id of
/// the next new column.
///
/// # Errors
/// `InvalidArgument` for JSON that is not a schema, `Unsupported` for a change that Benthic's
/// tables do not have.
pub fn changes(schema: &TableSchema, next_id: u32, wanted: &Value) -> Result<Vec<Alter>> {
    if wanted["identifier-field-ids"].as_array().is_some_and(|ids| !ids.is_empty()) {
        return Err(unsupported("a table has no identifier fields"));
    }
    let mut kept = Vec::new();
    let (mut renamed, mut widened, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for field in fields(wanted)? {
        let name = field["name"].as_str().ok_or_else(|| invalid("a field of the schema has no name"))?;
        check_attributes(field).map_err(|error| error.with("column", name))?;
        let id = field["id"].as_u64().and_then(|id| u32::try_from(id).ok());
        let id = id.ok_or_else(|| invalid("a field of the schema has no id").with("column", name))?;
        let is_required = field["required"].as_bool().unwrap_or(false);
        let wanted_type = || column_type(name, &field["type"]);
        match schema.by_id(id) {
            Some(column) => {
                if is_required == column.nullable {
                    return Err(
                        unsupported("a column cannot become required or optional").with("column", name)
                    );
                }
                if column.name != name {
                    renamed.push(Alter::Rename { from: column.name.clone(), to: name.to_owned() });
                }
                if !is_same(&iceberg_type(column)?, &field["type"]) {
                    if column.data_type.is_nested() {
                        return Err(
                            unsupported("the fields within a column cannot be changed").with("column", name)
                        );
                    }
                    widened.push(Alter::Widen { name: name.to_owned(), data_type: wanted_type()? });
                }
                kept.push(column);
            }
            // The table gives new columns its own ids, which the answer has.
            None if id < next_id => {
                let message = "a dropped column does not come back; add a column with a new id";
                return Err(unsupported(message)
                    .with("column", name)
                    .with("id", id)
                    .with("next_id", next_id));
            }
            None if is_required => {
                return Err(unsupported("a new column is null in existing rows, so it cannot be required")
                    .with("column", name));
            }
            None => {
                added.push(Alter::Add { name: name.to_owned(), data_type: wanted_type()? });
            }
        }
    }
    check_order(schema, &kept, wanted)?;
    check_names(&kept, &renamed)?;
    let is_dropped = |column: &&Column| !kept.iter().any(|kept| kept.id == column.id);
    let dropped = schema.columns().iter().filter(is_dropped);
    let dropped = dropped.map(|column| Alter::Drop { name: column.name.clone() });
    Ok(dropped.chain(renamed).chain(widened).chain(added).collect())
}

/// Whether a client means our type. Clients write decimals with and without a blank.
fn is_same(ours: &Value, given: &Value) -> bool {
    match (ours, given) {
        (Value::String(ours), Value::String(given)) => ours == given || *ours == given.replace(' ', ""),
        (Value::Array(ours), Value::Array(given)) => {
            ours.len() == given.len() && ours.iter().zip(given).all(|(ours, given)| is_same(ours, given))
        }
        (Value::Object(ours), Value::Object(given)) => {
            let is_known = |(name, value): (&String, &Value)| value.is_null() || ours.contains_key(name);
            ours.iter().all(|(name, ours)| given.get(name).is_some_and(|given| is_same(ours, given)))
                && given.iter().all(is_known)
        }
        (ours, given) => ours == given,
    }
}

/// Refuses properties that a column of Benthic cannot have.
fn check_attributes(field: &Value) -> Result<()> {
    match ["doc", "initial-default", "write-default"].into_iter().find(|name| !field[name].is_null()) {
        Some(name) => Err(unsupported("a column has no comment and no default").with("attribute", name)),
        None => Ok(()),
    }
}

/// Columns keep their order, and new ones come last.
fn check_order(schema: &TableSchema, kept: &[&Column], wanted: &Value) -> Result<()> {
    let ids =
        |columns: &mut dyn Iterator<Item = &Column>| columns.map(|column| column.id).collect::<Vec<_>>();
    let given = ids(&mut kept.iter().copied());
    let in_order = ids(&mut schema.columns().iter().filter(|column| given.contains(&column.id)));
    let first = fields(wanted)?.iter().take(given.len());
    let come_first = first.filter_map(|field| field["id"].as_u64()).eq(given.iter().map(|id| u64::from(*id)));
    match come_first && given == in_order {
        true => Ok(()),
        false => Err(unsupported("columns cannot be moved; a new column is the last one")),
    }
}

/// Renames are applied one after the other, by name.
fn check_names(kept: &[&Column], renamed: &[Alter]) -> Result<()> {
    let taken = renamed.iter().find_map(|rename| match rename {
        Alter::Rename { to, .. } if kept.iter().any(|column| column.name == *to) => Some(to),
        _ => None,
    });
    match taken {
        Some(name) => {
            let message =
                "a column cannot take the name that another one has; rename that one in a change before";
            Err(unsupported(message).with("column", name))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
#[path = "evolution_tests.rs"]
mod tests;
