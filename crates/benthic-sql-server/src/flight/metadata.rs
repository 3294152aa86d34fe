//! Answers to clients' questions about the server and its tables.

use super::known_types;
use crate::DATABASE;
use crate::users::User;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow_flight::error::FlightError;
use arrow_flight::sql::metadata::{SqlInfoData, SqlInfoDataBuilder};
use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetTables, SqlInfo, SqlSupportedTransaction,
};
use benthic_core::build;
use benthic_sql::session::TableColumns;
use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

type Result<T> = std::result::Result<T, FlightError>;

/// The type of all tables.
pub const TABLE_TYPE: &str = "TABLE";

/// The server's name, version and features.
pub static SERVER: LazyLock<Result<SqlInfoData>> = LazyLock::new(|| {
    let mut info = SqlInfoDataBuilder::new();
    info.append(SqlInfo::FlightSqlServerName, "Benthic");
    info.append(SqlInfo::FlightSqlServerVersion, build());
    info.append(SqlInfo::FlightSqlServerArrowVersion, "1.5");
    info.append(SqlInfo::FlightSqlServerReadOnly, true);
    info.append(SqlInfo::FlightSqlServerSql, true);
    info.append(SqlInfo::FlightSqlServerSubstrait, false);
    info.append(SqlInfo::FlightSqlServerTransaction, SqlSupportedTransaction::None as i32);
    info.append(SqlInfo::FlightSqlServerCancel, true);
    info.append(SqlInfo::SqlDdlCatalog, false);
    info.append(SqlInfo::SqlDdlSchema, false);
    info.append(SqlInfo::SqlDdlTable, false);
    info.append(SqlInfo::SqlIdentifierQuoteChar, "\"");
    info.build()
});

/// The one catalog.
pub fn catalogs(query: CommandGetCatalogs) -> Result<RecordBatch> {
    let mut builder = query.into_builder();
    builder.append(DATABASE);
    builder.build()
}

/// The pools that have tables.
pub fn schemas(query: CommandGetDbSchemas, tables: &[TableColumns]) -> Result<RecordBatch> {
    let pools: BTreeSet<&str> = tables.iter().map(|table| table.pool.as_str()).collect();
    let mut builder = query.into_builder();
    pools.into_iter().for_each(|pool| builder.append(DATABASE, pool));
    builder.build()
}

/// The tables.
pub fn tables(query: CommandGetTables, tables: &[TableColumns]) -> Result<RecordBatch> {
    let mut builder = query.into_builder();
    for TableColumns { pool, name, schema } in tables {
        builder.append(DATABASE, pool, name, TABLE_TYPE, &known_types::schema(schema))?;
    }
    builder.build()
}

/// The columns of the answers about primary keys. There are none.
pub fn primary_keys() -> SchemaRef {
    let text = |name, nullable| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("catalog_name", true),
        text("db_schema_name", true),
        text("table_name", false),
        text("column_name", false),
        text("key_name", true),
        Field::new("key_sequence", DataType::Int32, false),
    ]))
}

/// The columns of the answers about foreign keys. There are none.
pub fn foreign_keys() -> SchemaRef {
    let text = |name, nullable| Field::new(name, DataType::Utf8, nullable);
    Arc::new(Schema::new(vec![
        text("pk_catalog_name", true),
        text("pk_db_schema_name", true),
        text("pk_table_name", false),
        text("pk_column_name", false),
        text("fk_catalog_name", true),
        text("fk_db_schema_name", true),
        text("fk_table_name", false),
        text("fk_column_name", false),
        Field::new("key_sequence", DataType::Int32, false),
        text("fk_key_name", true),
        text("pk_key_name", true),
        Field::new("update_rule", DataType::UInt8, false),
        Field::new("delete_rule", DataType::UInt8, false),
    ]))
}

/// The tables of a user.
pub async fn of_user(user: &Arc<User>) -> std::result::Result<Arc<Vec<TableColumns>>, tonic::Status> {
    user.tables().await.map_err(|error| super::status(&error))
}
