//! Columns of objects in queries: their types, and how they map to columns of the table. An object
//! has the schema that the table had when the object was written. Column numbers connect the two.
//! DataFusion's own adapter matches columns by name, so we rename by number first.

use crate::syntax::show_type;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use benthic_core::Error;
use benthic_table::{FIELD_ID_KEY, TableSchema};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr_adapter::{
    DefaultPhysicalExprAdapter, PhysicalExprAdapter, PhysicalExprAdapterFactory,
};
use std::collections::HashSet;
use std::sync::Arc;

/// Adapts objects to this schema by column number, regardless of names. A column that is missing in
/// an object is null.
#[derive(Debug)]
pub struct ByNumber(pub TableSchema);

impl PhysicalExprAdapterFactory for ByNumber {
    fn create(&self, logical: SchemaRef, file: SchemaRef) -> Result<Arc<dyn PhysicalExprAdapter>> {
        let fields: Vec<Field> = file.fields().iter().map(|field| self.with_current_name(field)).collect();
        let by_name = DefaultPhysicalExprAdapter::new(logical, Arc::new(Schema::new(fields)));
        Ok(Arc::new(Adapter { by_name, file }))
    }
}

impl ByNumber {
    /// The field under the current name of its column, or under a name that no column has.
    fn with_current_name(&self, field: &Field) -> Field {
        let id = field.metadata().get(FIELD_ID_KEY).and_then(|id| id.parse().ok());
        let renamed = id.map(|id: u32| match self.0.by_id(id) {
            Some(column) => column.name.clone(),
            None => format!("\0{id}"),
        });
        let name = renamed.unwrap_or_else(|| field.name().clone());
        Field::new(name, field.data_type().clone(), field.is_nullable())
    }
}

#[derive(Debug)]
struct Adapter {
    by_name: DefaultPhysicalExprAdapter,
    file: SchemaRef,
}

impl PhysicalExprAdapter for Adapter {
    fn rewrite(&self, expr: Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
        // The next steps find columns in the file by position or by name.
        let named_as_in_file = |expr: Arc<dyn PhysicalExpr>| {
            let Some(column) = expr.downcast_ref::<Column>() else {
                return Ok(Transformed::no(expr));
            };
            let name = self.file.field(column.index()).name();
            Ok(Transformed::yes(Arc::new(Column::new(name, column.index())) as Arc<dyn PhysicalExpr>))
        };
        self.by_name.rewrite(expr)?.transform_up(named_as_in_file).data()
    }
}

/// Whether equal names mean equal columns in the file's schema and the current one, so that the
/// file can be read by name.
pub fn same_by_name(file: &TableSchema, now: &TableSchema) -> bool {
    let same = |name: &str| match (file.by_name(name), now.by_name(name)) {
        (Ok(then), Ok(now)) => then.id == now.id,
        _ => true,
    };
    let kept_name = |id: u32, name: &str| file.by_id(id).is_none_or(|then| then.name == name);
    now.columns().iter().all(|column| same(&column.name) && kept_name(column.id, &column.name))
}

/// Whether values of this type are or contain floating-point numbers.
///
/// Bounds of floating-point columns do not cover NaN, which is greater than every bound. Rows must
/// not be pruned with them.
pub fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => true,
        DataType::Dictionary(_, value) => has_floats(value),
        data_type => data_type.is_nested(),
    }
}

/// The column that a scan without columns reads to count rows. Fragments cannot read nested
/// columns.
pub fn counted_column(schema: &Schema) -> Option<usize> {
    schema.fields().iter().position(|field| !field.data_type().is_nested())
}

/// The schema in queries. Strings and binaries are views, because fragments read no other string
/// types.
pub fn schema_in_queries(schema: &Schema) -> Schema {
    let field = |field: &Arc<Field>| {
        Field::new(field.name(), type_in_queries(field.data_type()), field.is_nullable())
    };
    Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>())
}

/// The type of a column in queries.
pub fn type_in_queries(data_type: &DataType) -> DataType {
    let part =
        |field: &FieldRef| Arc::new(Field::clone(field).with_data_type(type_in_queries(field.data_type())));
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        DataType::Dictionary(_, value) => type_in_queries(value),
        DataType::List(item) => DataType::List(part(item)),
        DataType::LargeList(item) => DataType::LargeList(part(item)),
        DataType::FixedSizeList(item, len) => DataType::FixedSizeList(part(item), *len),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(part).collect()),
        DataType::Map(entries, sorted) => DataType::Map(part(entries), *sorted),
        data_type => data_type.clone(),
    }
}

/// Checks that a query can tell the columns apart.
///
/// # Errors
/// `Unsupported` for two columns of the same name.
pub fn check_names(schema: &Schema) -> benthic_core::Result<()> {
    let mut names = HashSet::new();
    match schema.fields().iter().find(|field| !names.insert(field.name())) {
        None => Ok(()),
        Some(twice) => {
            let message = "two columns have the same name, so that a query cannot tell them apart";
            Err(Error::unsupported(message).with("column", twice.name()))
        }
    }
}

/// The columns of two files together, as UNION ALL BY NAME combines them: a column that one file
/// lacks is null there, and types are widened.
///
/// # Errors
/// `InvalidArgument` if no type holds the values of both files.
pub fn union_by_name(one: &Schema, other: &Schema) -> benthic_core::Result<Schema> {
    let mut fields = Vec::with_capacity(one.fields().len());
    for field in one.fields() {
        let Ok(same) = other.field_with_name(field.name()) else {
            fields.push(field.as_ref().clone().with_nullable(true));
            continue;
        };
        let wider = type_union_coercion(field.data_type(), same.data_type()).ok_or_else(|| {
            let message = "a column has different types in these files; query them one by one, and combine \
                 the queries with UNION ALL and CAST";
            Error::invalid_argument(message)
                .with("column", field.name())
                .with("type", show_type(field.data_type()))
                .with("other_type", show_type(same.data_type()))
        })?;
        let is_nullable = field.is_nullable() || same.is_nullable();
        fields.push(Field::new(field.name(), type_in_queries(&wider), is_nullable));
    }
    let added = other.fields().iter().filter(|field| one.field_with_name(field.name()).is_err());
    fields.extend(added.map(|field| field.as_ref().clone().with_nullable(true)));
    Ok(Schema::new(fields))
}
