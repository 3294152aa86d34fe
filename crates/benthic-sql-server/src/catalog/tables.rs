//! The tables of the catalog. Schemas are pools, and relations are tables.
//!
//! Only tables that can have rows are here: [`rewrite`](super::rewrite) treats all others as empty.

use super::PG_CATALOG;
use crate::DATABASE;
use crate::postgres::SessionSettings;
use crate::postgres::types::{TYPES, of_column, sql_name};
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use benthic_sql::relations;
use benthic_sql::session::TableColumns;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The tables of `pg_catalog` that can have rows.
pub const PG_TABLES: [&str; 11] = [
    "pg_am",
    "pg_attribute",
    "pg_authid",
    "pg_class",
    "pg_database",
    "pg_namespace",
    "pg_roles",
    "pg_settings",
    "pg_tables",
    "pg_type",
    "pg_user",
];
/// The tables of `information_schema` that can have rows.
pub const INFORMATION_TABLES: [&str; 3] = ["columns", "schemata", "tables"];

/// The number of the schema `pg_catalog`, and of others that every database of Postgres has.
const PG_CATALOG_OID: i64 = 11;
const INFORMATION_SCHEMA_OID: i64 = 13_000;
/// The number of the only role.
const OWNER: i64 = 10;
/// The name of the only role.
pub const OWNER_NAME: &str = "benthic";
const DATABASE_OID: i64 = 5;
const HEAP: i64 = 2;

/// The schemas and relations, with their numbers.
pub struct Objects<'a> {
    /// Pools by name.
    pub schemas: BTreeMap<&'a str, i64>,
    pub relations: Vec<(i64, &'a TableColumns)>,
}

impl<'a> Objects<'a> {
    /// Numbers the tables. A number depends on the name only, so that it stays the same in other
    /// connections and when tables come and go; except that two names may collide.
    pub fn new(tables: &'a [TableColumns]) -> Objects<'a> {
        let mut used = BTreeSet::new();
        let mut number = |name: &str| {
            // FNV-1a, in the range above Postgres' own numbers.
            let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            let mut number = (hash >> 34) as i64 + 100_000;
            while !used.insert(number) {
                number += 1;
            }
            number
        };
        let mut schemas: BTreeMap<&str, i64> = BTreeMap::new();
        for table in tables {
            schemas.entry(&table.pool).or_insert_with(|| number(&table.pool));
        }
        let relation = |table: &'a TableColumns| (number(&format!("{}/{}", table.pool, table.name)), table);
        let relations = tables.iter().map(relation).collect();
        Objects { schemas, relations }
    }

    /// The name of a relation or a table of the catalog.
    pub fn relation_name(&self, oid: i64) -> Option<String> {
        let found = self.relations.iter().find(|(number, _)| *number == oid);
        found.map(|(_, table)| format!("{}.{}", quoted(&table.pool), quoted(&table.name)))
    }

    /// The number of a relation with this name, with or without a schema.
    pub fn relation_number(&self, name: &str) -> Option<i64> {
        let name = name.trim_start_matches("pg_catalog.");
        // Clients compare these two with columns of tables that are empty here.
        match name {
            "pg_class" => return Some(1_259),
            "pg_namespace" => return Some(2_615),
            "pg_type" => return Some(1_247),
            "pg_proc" => return Some(1_255),
            _ => {}
        }
        let plain = name.replace('"', "");
        let is_named =
            |table: &TableColumns| plain == table.name || plain == format!("{}.{}", table.pool, table.name);
        self.relations.iter().find(|(_, table)| is_named(table)).map(|(number, _)| *number)
    }
}

/// A name as SQL needs it: in double quotes if it is not a plain word.
pub fn quoted(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { relations::quoted(name) }
}

/// Columns of the same length.
struct Rows {
    len: usize,
    columns: Vec<(&'static str, ArrayRef)>,
}

impl Rows {
    fn new(len: usize) -> Rows {
        Rows { len, columns: Vec::new() }
    }

    fn ints(mut self, name: &'static str, values: impl Iterator<Item = i64>) -> Rows {
        self.columns.push((name, Arc::new(Int64Array::from_iter_values(values))));
        self
    }

    fn texts<S: AsRef<str>>(mut self, name: &'static str, values: impl Iterator<Item = S>) -> Rows {
        self.columns.push((name, Arc::new(StringArray::from_iter_values(values))));
        self
    }

    fn bools(mut self, name: &'static str, values: impl Iterator<Item = bool>) -> Rows {
        let values: Vec<bool> = values.collect();
        self.columns.push((name, Arc::new(BooleanArray::from(values))));
        self
    }

    /// Adds columns with the same number in all rows.
    fn all_ints(self, names: &[&'static str], value: i64) -> Rows {
        let len = self.len;
        names.iter().fold(self, |rows, name| rows.ints(name, std::iter::repeat_n(value, len)))
    }

    fn all_texts(self, names: &[&'static str], value: &str) -> Rows {
        let len = self.len;
        names.iter().fold(self, |rows, name| rows.texts(name, std::iter::repeat_n(value, len)))
    }

    fn all_bools(self, names: &[&'static str], value: bool) -> Rows {
        let len = self.len;
        names.iter().fold(self, |rows, name| rows.bools(name, std::iter::repeat_n(value, len)))
    }

    /// Adds columns of text that are NULL in all rows.
    fn nulls(mut self, names: &[&'static str]) -> Rows {
        for name in names {
            self.columns.push((name, Arc::new(StringArray::new_null(self.len))));
        }
        self
    }

    fn build(self) -> Result<RecordBatch, ArrowError> {
        let fields = self.columns.into_iter().map(|(name, column)| (name, column, true));
        RecordBatch::try_from_iter_with_nullable(fields)
    }
}

/// The tables of a schema.
pub fn of_schema(
    schema: &str,
    access_key: &str,
    settings: &SessionSettings,
    objects: &Objects<'_>,
) -> Result<Vec<(&'static str, RecordBatch)>, ArrowError> {
    let of = Build { access_key, settings, objects };
    if schema == PG_CATALOG {
        return PG_TABLES.iter().map(|name| Ok((*name, pg_table(name, &of).build()?))).collect();
    }
    INFORMATION_TABLES.iter().map(|name| Ok((*name, information_table(name, &of).build()?))).collect()
}

/// The facts from which tables of the catalog are built.
struct Build<'a> {
    access_key: &'a str,
    settings: &'a SessionSettings,
    objects: &'a Objects<'a>,
}

fn pg_table(name: &str, of: &Build<'_>) -> Rows {
    match name {
        "pg_am" => {
            Rows::new(1).all_ints(&["oid"], HEAP).all_texts(&["amname"], "heap").all_texts(&["amtype"], "t")
        }
        "pg_attribute" => pg_attribute(of.objects),
        "pg_class" => pg_class(of.objects),
        "pg_database" => Rows::new(1)
            .all_ints(&["oid"], DATABASE_OID)
            .all_texts(&["datname"], DATABASE)
            .all_ints(&["datdba"], OWNER)
            .all_ints(&["encoding"], 6)
            .all_texts(&["datlocprovider"], "c")
            .all_bools(&["datistemplate"], false)
            .all_bools(&["datallowconn"], true)
            .all_ints(&["datconnlimit"], -1)
            .all_ints(&["datfrozenxid", "datminmxid", "dattablespace"], 0)
            .all_texts(&["datcollate", "datctype"], "C.UTF-8")
            .nulls(&["daticulocale", "datcollversion", "datacl"]),
        "pg_namespace" => pg_namespace(of.objects),
        "pg_settings" => {
            let settings: Vec<(&str, &str)> = of.settings.all().collect();
            Rows::new(settings.len())
                .texts("name", settings.iter().map(|(name, _)| name))
                .texts("setting", settings.iter().map(|(_, value)| value))
                .nulls(&["unit", "category", "short_desc", "extra_desc", "context", "vartype", "source"])
        }
        "pg_tables" => {
            let relations = &of.objects.relations;
            Rows::new(relations.len())
                .texts("schemaname", relations.iter().map(|(_, table)| &table.pool))
                .texts("tablename", relations.iter().map(|(_, table)| &table.name))
                .all_texts(&["tableowner"], OWNER_NAME)
                .nulls(&["tablespace"])
                .all_bools(&["hasindexes", "hasrules", "hastriggers", "rowsecurity"], false)
        }
        "pg_type" => pg_type(),
        "pg_user" => Rows::new(2)
            .texts("usename", [OWNER_NAME, of.access_key].iter())
            .ints("usesysid", [OWNER, OWNER + 1].into_iter())
            .all_bools(&["usecreatedb", "usesuper", "userepl", "usebypassrls"], false)
            .nulls(&["passwd", "valuntil", "useconfig"]),
        // pg_roles and pg_authid.
        _ => Rows::new(2)
            .ints("oid", [OWNER, OWNER + 1].into_iter())
            .texts("rolname", [OWNER_NAME, of.access_key].iter())
            .bools("rolsuper", [true, false].into_iter())
            .all_bools(&["rolinherit", "rolcanlogin"], true)
            .all_bools(&["rolcreaterole", "rolcreatedb", "rolreplication", "rolbypassrls"], false)
            .all_ints(&["rolconnlimit"], -1)
            .nulls(&["rolpassword", "rolvaliduntil", "rolconfig"]),
    }
}

fn pg_namespace(objects: &Objects<'_>) -> Rows {
    let own = [("pg_catalog", PG_CATALOG_OID), ("information_schema", INFORMATION_SCHEMA_OID)];
    let schemas: Vec<(&str, i64)> =
        own.into_iter().chain(objects.schemas.iter().map(|(name, oid)| (*name, *oid))).collect();
    Rows::new(schemas.len())
        .ints("oid", schemas.iter().map(|(_, oid)| *oid))
        .texts("nspname", schemas.iter().map(|(name, _)| name))
        .all_ints(&["nspowner"], OWNER)
        .nulls(&["nspacl"])
}

fn pg_class(objects: &Objects<'_>) -> Rows {
    let relations = &objects.relations;
    let schema = |table: &TableColumns| objects.schemas.get(table.pool.as_str()).copied().unwrap_or(0);
    Rows::new(relations.len())
        .ints("oid", relations.iter().map(|(oid, _)| *oid))
        .texts("relname", relations.iter().map(|(_, table)| &table.name))
        .ints("relnamespace", relations.iter().map(|(_, table)| schema(table)))
        .ints("relnatts", relations.iter().map(|(_, table)| table.schema.fields().len() as i64))
        .all_ints(&["relowner"], OWNER)
        .all_ints(&["relam"], HEAP)
        .all_ints(&["reltuples"], -1)
        .all_ints(
            &[
                "reltype",
                "reloftype",
                "relfilenode",
                "reltablespace",
                "relpages",
                "relallvisible",
                "reltoastrelid",
                "relchecks",
                "relrewrite",
                "relfrozenxid",
                "relminmxid",
            ],
            0,
        )
        .all_bools(
            &[
                "relhasindex",
                "relisshared",
                "relhasrules",
                "relhastriggers",
                "relhassubclass",
                "relrowsecurity",
                "relforcerowsecurity",
                "relispartition",
                "relhasoids",
            ],
            false,
        )
        .all_bools(&["relispopulated"], true)
        .all_texts(&["relpersistence"], "p")
        .all_texts(&["relkind"], "r")
        .all_texts(&["relreplident"], "n")
        .nulls(&["relacl", "reloptions", "relpartbound"])
}

fn pg_attribute(objects: &Objects<'_>) -> Rows {
    let columns: Vec<_> = objects
        .relations
        .iter()
        .flat_map(|(oid, table)| {
            let fields = table.schema.fields().iter().enumerate();
            fields.map(move |(number, field)| (*oid, number as i64 + 1, field))
        })
        .collect();
    let types = || columns.iter().map(|(_, _, field)| of_column(field.data_type()));
    Rows::new(columns.len())
        .ints("attrelid", columns.iter().map(|(oid, ..)| *oid))
        .texts("attname", columns.iter().map(|(_, _, field)| field.name()))
        .ints("atttypid", types().map(|(oid, _)| oid.into()))
        .ints("attlen", types().map(|(_, len)| len.into()))
        .ints("attnum", columns.iter().map(|(_, number, _)| *number))
        .ints("atttypmod", columns.iter().map(|(_, _, field)| type_modifier(field.data_type())))
        .bools("attnotnull", columns.iter().map(|(_, _, field)| !field.is_nullable()))
        .all_ints(&["attstattarget", "attcacheoff"], -1)
        .all_ints(&["attndims", "attinhcount", "attcollation"], 0)
        .all_bools(&["atthasdef", "atthasmissing", "attisdropped", "attbyval"], false)
        .all_bools(&["attislocal"], true)
        .all_texts(&["attidentity", "attgenerated", "attcompression"], "")
        .all_texts(&["attalign"], "i")
        .all_texts(&["attstorage"], "p")
        .nulls(&["attacl", "attoptions", "attfdwoptions", "attmissingval"])
}

/// Precision and scale of a decimal number, as Postgres stores them; -1 for other types.
fn type_modifier(data_type: &DataType) -> i64 {
    let of = |precision: u8, scale: i8| (i64::from(precision) << 16 | (i64::from(scale) & 0x7ff)) + 4;
    match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => of(*precision, *scale),
        DataType::UInt64 => of(20, 0),
        _ => -1,
    }
}

fn pg_type() -> Rows {
    let arrays = TYPES.iter().filter(|found| found.array_oid != 0);
    let names: Vec<String> = TYPES
        .iter()
        .map(|found| found.name.to_owned())
        .chain(arrays.clone().map(|found| format!("_{}", found.name)))
        .collect();
    let count = arrays.clone().count();
    let zeros = || std::iter::repeat_n(0, count);
    Rows::new(names.len())
        .ints(
            "oid",
            TYPES
                .iter()
                .map(|found| found.oid.into())
                .chain(arrays.clone().map(|found| found.array_oid.into())),
        )
        .texts("typname", names.iter())
        .all_ints(&["typnamespace"], PG_CATALOG_OID)
        .all_ints(&["typowner"], OWNER)
        .ints("typlen", TYPES.iter().map(|found| found.len.into()).chain(std::iter::repeat_n(-1, count)))
        .texts(
            "typcategory",
            TYPES
                .iter()
                .map(|found| found.category.to_string())
                .chain(std::iter::repeat_n("A".to_owned(), count)),
        )
        .ints("typarray", TYPES.iter().map(|found| found.array_oid.into()).chain(zeros()))
        .ints("typelem", TYPES.iter().map(|_| 0).chain(arrays.map(|found| found.oid.into())))
        .texts(
            "typinput",
            TYPES
                .iter()
                .map(|found| format!("{}in", found.name))
                .chain(std::iter::repeat_n("array_in".to_owned(), count)),
        )
        .all_texts(&["typtype"], "b")
        .all_texts(&["typdelim"], ",")
        .all_texts(&["typalign"], "i")
        .all_texts(&["typstorage"], "p")
        .all_bools(&["typbyval", "typispreferred", "typnotnull"], false)
        .all_bools(&["typisdefined"], true)
        .all_ints(&["typrelid", "typbasetype", "typndims", "typcollation"], 0)
        .all_ints(&["typtypmod"], -1)
        .nulls(&["typoutput", "typreceive", "typsend", "typdefault", "typdefaultbin", "typacl"])
}

fn information_table(name: &str, of: &Build<'_>) -> Rows {
    let relations = &of.objects.relations;
    match name {
        "schemata" => {
            let own = ["pg_catalog", "information_schema"].into_iter();
            let schemas: Vec<&str> = own.chain(of.objects.schemas.keys().copied()).collect();
            Rows::new(schemas.len())
                .all_texts(&["catalog_name"], DATABASE)
                .texts("schema_name", schemas.iter())
                .all_texts(&["schema_owner"], OWNER_NAME)
                .nulls(&["default_character_set_catalog", "default_character_set_schema"])
                .nulls(&["default_character_set_name", "sql_path"])
        }
        "tables" => Rows::new(relations.len())
            .all_texts(&["table_catalog"], DATABASE)
            .texts("table_schema", relations.iter().map(|(_, table)| &table.pool))
            .texts("table_name", relations.iter().map(|(_, table)| &table.name))
            .all_texts(&["table_type"], "BASE TABLE")
            .nulls(&["self_referencing_column_name", "reference_generation", "commit_action"])
            .all_texts(&["is_insertable_into", "is_typed"], "NO"),
        _ => {
            let columns: Vec<_> = relations
                .iter()
                .flat_map(|(_, table)| {
                    let fields = table.schema.fields().iter().enumerate();
                    fields.map(move |(number, field)| (*table, number as i64 + 1, field))
                })
                .collect();
            let type_name = |data_type: &DataType| sql_name(of_column(data_type).0).unwrap_or_default();
            Rows::new(columns.len())
                .all_texts(&["table_catalog", "udt_catalog"], DATABASE)
                .texts("table_schema", columns.iter().map(|(table, ..)| &table.pool))
                .texts("table_name", columns.iter().map(|(table, ..)| &table.name))
                .texts("column_name", columns.iter().map(|(_, _, field)| field.name()))
                .ints("ordinal_position", columns.iter().map(|(_, number, _)| *number))
                .texts(
                    "is_nullable",
                    columns.iter().map(|(_, _, field)| if field.is_nullable() { "YES" } else { "NO" }),
                )
                .texts("data_type", columns.iter().map(|(_, _, field)| type_name(field.data_type())))
                .texts("udt_name", columns.iter().map(|(_, _, field)| type_name(field.data_type())))
                .all_texts(&["udt_schema"], PG_CATALOG)
                .nulls(&["column_default", "character_maximum_length", "character_octet_length"])
                .nulls(&["numeric_precision", "numeric_precision_radix", "numeric_scale"])
                .nulls(&["datetime_precision", "domain_name", "collation_name", "generation_expression"])
                .all_texts(&["is_identity", "is_updatable", "is_self_referencing"], "NO")
                .all_texts(&["is_generated"], "NEVER")
        }
    }
}
