//! The functions of Postgres' catalog. Most are constants here: all tables are visible to a user
//! that sees them, nothing has a comment, and nothing has a size.

use super::tables::{OWNER_NAME, Objects, quoted};
use crate::DATABASE;
use crate::postgres::types::{TYPES, sql_name};
use crate::postgres::{SessionSettings, VERSION};
use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use benthic_core::build;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

const TRUE: [&str; 15] = [
    "has_any_column_privilege",
    "has_column_privilege",
    "has_database_privilege",
    "has_function_privilege",
    "has_schema_privilege",
    "has_sequence_privilege",
    "has_table_privilege",
    "pg_collation_is_visible",
    "pg_function_is_visible",
    "pg_has_role",
    "pg_operator_is_visible",
    "pg_opclass_is_visible",
    "pg_statistics_obj_is_visible",
    "pg_table_is_visible",
    "pg_type_is_visible",
];
const FALSE: [&str; 3] = ["pg_is_in_recovery", "pg_is_other_temp_schema", "pg_relation_is_publishable"];
const ZERO: [&str; 9] = [
    "inet_server_port",
    "pg_backend_pid",
    "pg_database_size",
    "pg_indexes_size",
    "pg_my_temp_schema",
    "pg_relation_is_updatable",
    "pg_relation_size",
    "pg_table_size",
    "pg_total_relation_size",
];
const NULL: [&str; 32] = [
    "array_length",
    "array_lower",
    "array_to_json",
    "array_to_string",
    "array_upper",
    "cardinality",
    "col_description",
    "inet_client_addr",
    "inet_server_addr",
    "json_agg",
    "json_build_object",
    "jsonb_build_object",
    "obj_description",
    "pg_get_constraintdef",
    "pg_get_expr",
    "pg_get_function_arguments",
    "pg_get_function_identity_arguments",
    "pg_get_function_result",
    "pg_get_functiondef",
    "pg_get_indexdef",
    "pg_get_partition_constraintdef",
    "pg_get_partkeydef",
    "pg_get_ruledef",
    "pg_get_serial_sequence",
    "pg_get_statisticsobjdef_columns",
    "pg_get_triggerdef",
    "pg_get_viewdef",
    "pg_size_pretty",
    "pg_tablespace_location",
    "row_to_json",
    "shobj_description",
    "to_json",
];
/// Functions that are not constants, and those whose constant depends on the session.
const OTHERS: [&str; 22] = [
    "current_catalog",
    "current_database",
    "current_role",
    "current_schema",
    "current_schemas",
    "current_setting",
    "current_user",
    "format_type",
    "pg_client_encoding",
    "pg_encoding_to_char",
    "pg_get_userbyid",
    "quote_ident",
    "regclass_name",
    "regclass_number",
    "regtype_number",
    "session_user",
    "set_config",
    "to_regclass",
    "to_regtype",
    "user",
    "version",
    "pg_postmaster_start_time",
];

/// Whether a function is one of the catalog's.
pub fn is_catalog_function(name: &str) -> bool {
    [&TRUE[..], &FALSE, &ZERO, &NULL, &OTHERS].iter().any(|names| names.contains(&name))
}

/// The functions for one query.
pub fn all(access_key: &str, settings: &SessionSettings, objects: &Objects<'_>) -> Vec<ScalarUDF> {
    let mut all = Vec::new();
    let mut add = |names: &[&'static str], output: Output| {
        all.extend(names.iter().map(|name| ScalarUDF::from(CatalogFunction::new(name, output.clone()))));
    };
    let text = |text: &str| Output::Constant(ScalarValue::Utf8(Some(text.to_owned())));
    add(&TRUE, Output::Constant(ScalarValue::Boolean(Some(true))));
    add(&FALSE, Output::Constant(ScalarValue::Boolean(Some(false))));
    add(&ZERO, Output::Constant(ScalarValue::Int64(Some(0))));
    add(&NULL, Output::Constant(ScalarValue::Utf8(None)));
    add(&["pg_postmaster_start_time"], Output::Constant(ScalarValue::Utf8(None)));
    add(&["version"], text(&format!("PostgreSQL {VERSION} (Benthic {})", build())));
    add(&["current_catalog", "current_database"], text(DATABASE));
    add(&["current_schema"], text("public"));
    add(&["current_schemas"], text("{pg_catalog,public}"));
    add(&["current_role", "current_user", "session_user", "user"], text(access_key));
    add(&["pg_client_encoding", "pg_encoding_to_char"], text("UTF8"));
    add(&["pg_get_userbyid"], text(OWNER_NAME));
    let types = TYPES.iter().flat_map(|found| [found.oid, found.array_oid]);
    let names: HashMap<i64, String> = types.filter_map(|oid| Some((oid.into(), sql_name(oid)?))).collect();
    let numbers = |names: &HashMap<i64, String>| {
        let own = TYPES.iter().map(|found| (found.name.to_owned(), i64::from(found.oid)));
        own.chain(names.iter().map(|(oid, name)| (name.clone(), *oid))).collect::<HashMap<_, _>>()
    };
    let type_numbers = numbers(&names);
    add(&["regtype_number", "to_regtype"], Output::number(move |name| type_numbers.get(name).copied()));
    let type_name = move |oid, modifier: Option<i64>| {
        let name = names.get(&oid).cloned().unwrap_or("???".to_owned());
        match modifier.and_then(|modifier| modifier.checked_sub(4)).filter(|of| *of >= 0) {
            Some(of) if name == "numeric" => format!("numeric({},{})", of >> 16, of & 0x7ff),
            _ => name,
        }
    };
    add(&["format_type"], Output::TypeOf(Arc::new(type_name)));
    let relations: HashMap<i64, String> =
        objects.relations.iter().filter_map(|(oid, _)| Some((*oid, objects.relation_name(*oid)?))).collect();
    let known = relations.clone();
    add(
        &["regclass_name"],
        Output::name(move |oid| Some(relations.get(&oid).cloned().unwrap_or(oid.to_string()))),
    );
    let by_name: HashMap<String, i64> = known
        .into_iter()
        .map(|(oid, name)| (name, oid))
        .chain(objects.relations.iter().map(|(oid, table)| (table.name.clone(), *oid)))
        .chain(
            ["pg_class", "pg_namespace", "pg_type", "pg_proc"]
                .iter()
                .filter_map(|name| Some(((*name).to_owned(), objects.relation_number(name)?))),
        )
        .collect();
    add(
        &["regclass_number", "to_regclass"],
        Output::number(move |name| {
            let name = name.trim_start_matches("pg_catalog.");
            name.parse().ok().or_else(|| by_name.get(name).copied())
        }),
    );
    add(&["quote_ident"], Output::text(|name| Some(quoted(name))));
    let values: HashMap<String, String> =
        settings.all().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    add(
        &["current_setting", "set_config"],
        Output::text(move |name| values.get(&name.to_lowercase()).cloned()),
    );
    all
}

type Function<A, B> = Arc<dyn Fn(A) -> Option<B> + Send + Sync>;
type TextFunction<B> = Arc<dyn Fn(&str) -> Option<B> + Send + Sync>;
type TypeFunction = Arc<dyn Fn(i64, Option<i64>) -> String + Send + Sync>;

/// The output of a function.
#[derive(Clone)]
enum Output {
    Constant(ScalarValue),
    /// A text for the number that is the first argument.
    NameOf(Function<i64, String>),
    /// The name of the type whose number and modifier are the arguments.
    TypeOf(TypeFunction),
    /// A number for the text that is the first argument.
    NumberOf(TextFunction<i64>),
    /// A text for the text that is the first argument.
    TextOf(TextFunction<String>),
}

impl Output {
    fn name(function: impl Fn(i64) -> Option<String> + Send + Sync + 'static) -> Output {
        Output::NameOf(Arc::new(function))
    }

    fn number(function: impl Fn(&str) -> Option<i64> + Send + Sync + 'static) -> Output {
        Output::NumberOf(Arc::new(function))
    }

    fn text(function: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Output {
        Output::TextOf(Arc::new(function))
    }
}

/// A function with any arguments.
struct CatalogFunction {
    name: &'static str,
    output: Output,
    signature: Signature,
}

impl CatalogFunction {
    fn new(name: &'static str, output: Output) -> CatalogFunction {
        let any = vec![TypeSignature::Nullary, TypeSignature::VariadicAny];
        CatalogFunction { name, output, signature: Signature::one_of(any, Volatility::Stable) }
    }
}

impl fmt::Debug for CatalogFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

// A context has one function of each name.
impl PartialEq for CatalogFunction {
    fn eq(&self, other: &CatalogFunction) -> bool {
        self.name == other.name
    }
}

impl Eq for CatalogFunction {}

impl Hash for CatalogFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for CatalogFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(match &self.output {
            Output::Constant(value) => value.data_type(),
            Output::NumberOf(_) => DataType::Int64,
            Output::NameOf(_) | Output::TypeOf(_) | Output::TextOf(_) => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Output::Constant(value) = &self.output {
            return Ok(ColumnarValue::Scalar(value.clone()));
        }
        let rows = arguments.number_rows;
        let argument = |number: usize, wanted: &DataType| match arguments.args.get(number) {
            Some(value) => Ok(cast(&value.to_array(rows)?, wanted)?),
            None => ScalarValue::try_from(wanted)?.to_array_of_size(rows),
        };
        let wanted = match self.output {
            Output::NameOf(_) | Output::TypeOf(_) => DataType::Int64,
            _ => DataType::Utf8,
        };
        let first = argument(0, &wanted)?;
        let output: ArrayRef = match &self.output {
            Output::NameOf(function) => {
                let values = first.as_primitive::<Int64Type>().iter();
                Arc::new(values.map(|value| function(value?)).collect::<StringArray>())
            }
            Output::TypeOf(function) => {
                let modifiers = argument(1, &DataType::Int64)?;
                let modifiers = modifiers.as_primitive::<Int64Type>().iter();
                let values = first.as_primitive::<Int64Type>().iter().zip(modifiers);
                Arc::new(values.map(|(oid, of)| Some(function(oid?, of))).collect::<StringArray>())
            }
            Output::NumberOf(function) => {
                let values = first.as_string::<i32>().iter();
                Arc::new(values.map(|value| function(value?)).collect::<Int64Array>())
            }
            Output::TextOf(function) => {
                let values = first.as_string::<i32>().iter();
                Arc::new(values.map(|value| function(value?)).collect::<StringArray>())
            }
            Output::Constant(value) => value.to_array_of_size(rows)?,
        };
        Ok(ColumnarValue::Array(output))
    }
}
