//! The functions `contains_words`, `contains_phrase` and `contains_prefix`: whether a text contains
//! the words of a query.
//!
//! They split texts into words with the same code as indexes of words, so they return the same rows
//! with and without an index.

use arrow::array::{ArrayRef, AsArray, BooleanArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use benthic_index::{Search, TextQuery};
use datafusion_common::types::logical_string;
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{
    Coercion, ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignatureClass,
    Volatility,
};
use datafusion_physical_expr::expressions::Literal;
use datafusion_physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::sync::Arc;

/// The functions.
pub fn functions() -> [Arc<ScalarUDF>; 3] {
    [Search::Words, Search::Phrase, Search::Prefixes]
        .map(|search| Arc::new(ScalarUDF::from(TextSearch::new(search))))
}

/// Whether a function is one of these.
pub fn is_search(name: &str) -> bool {
    [Search::Words, Search::Phrase, Search::Prefixes].into_iter().any(|search| name_of(search) == name)
}

/// The searched expression and the query, if an expression is a call with a literal query.
pub fn search_of(expr: &Arc<dyn PhysicalExpr>) -> Option<(&Arc<dyn PhysicalExpr>, TextQuery)> {
    let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
    let function = call.fun().inner().downcast_ref::<TextSearch>()?;
    let [text, query] = call.args() else { return None };
    let query = query.downcast_ref::<Literal>()?.value().try_as_str()??;
    Some((text, TextQuery::new(function.search, query)))
}

fn name_of(search: Search) -> &'static str {
    match search {
        Search::Words => "contains_words",
        Search::Phrase => "contains_phrase",
        Search::Prefixes => "contains_prefix",
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TextSearch {
    search: Search,
    signature: Signature,
}

impl TextSearch {
    fn new(search: Search) -> TextSearch {
        let string = || Coercion::new_exact(TypeSignatureClass::Native(logical_string()));
        let signature = Signature::coercible(vec![string(), string()], Volatility::Immutable);
        TextSearch { search, signature }
    }
}

impl ScalarUDFImpl for TextSearch {
    fn name(&self) -> &str {
        name_of(self.search)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [text, query] = take_function_args(self.name(), args.args)?;
        let are_scalars = matches!((&text, &query), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let rows = if are_scalars { 1 } else { args.number_rows };
        let texts = strings(&text.into_array(rows)?)?;
        let found: BooleanArray = match query {
            ColumnarValue::Scalar(query) => match query.try_as_str().flatten() {
                Some(query) => {
                    let query = TextQuery::new(self.search, query);
                    texts.iter().map(|text| Some(query.matches(text?))).collect()
                }
                None => BooleanArray::new_null(rows),
            },
            ColumnarValue::Array(queries) => {
                let queries = strings(&queries)?;
                let matches = |(text, query): (Option<&str>, Option<&str>)| {
                    Some(TextQuery::new(self.search, query?).matches(text?))
                };
                texts.iter().zip(queries.iter()).map(matches).collect()
            }
        };
        match are_scalars {
            true => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&found, 0)?)),
            false => Ok(ColumnarValue::Array(Arc::new(found))),
        }
    }
}

/// The texts of an array of any text type.
///
/// # Errors
/// `ArrowError` for an array of another type.
pub fn strings(values: &ArrayRef) -> Result<StringViewArray> {
    Ok(cast(values, &DataType::Utf8View)?.as_string_view().clone())
}
