//! `array_all_match`, which DataFusion lacks: whether a condition holds for all elements of a list.
//!
//! A call is planned as a function of its own, so that columns and errors have its name. Then a
//! rule replaces it by `array_any_match`, which OSDs run, too: all elements match if none matches
//! the opposite condition. Rejected: the replacement in the syntax tree, because columns and errors
//! then have the other name.

use crate::literals::rewrite_exprs;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result};
use datafusion::functions_nested::array_any_match::array_any_match_higher_order_function;
use datafusion::logical_expr::expr::HigherOrderFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature,
    HigherOrderUDF, HigherOrderUDFImpl, LambdaParametersProgress, LogicalPlan, ValueOrLambda,
};
use datafusion::optimizer::AnalyzerRule;
use std::sync::Arc;

const NAME: &str = "array_all_match";

/// The function, until it is replaced. Its arguments are those of `array_any_match`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AllMatch {
    any: Arc<HigherOrderUDF>,
    aliases: Vec<String>,
}

/// The function `array_all_match`. A session that has it needs the rule [`AllAsAny`].
pub fn all_match() -> Arc<HigherOrderUDF> {
    let aliases = vec!["all_match".to_owned(), "list_all_match".to_owned()];
    let any = array_any_match_higher_order_function();
    Arc::new(HigherOrderUDF::new_from_impl(AllMatch { any, aliases }))
}

impl AllMatch {
    /// An error of `array_any_match`, with the name of this function.
    fn named(&self, error: DataFusionError) -> DataFusionError {
        match error {
            DataFusionError::Plan(message) => DataFusionError::Plan(message.replace(self.any.name(), NAME)),
            error => error,
        }
    }
}

impl HigherOrderUDFImpl for AllMatch {
    fn name(&self) -> &'static str {
        NAME
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        self.any.signature()
    }

    fn coerce_value_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.any.coerce_value_types(types).map_err(|error| self.named(error))
    }

    fn lambda_parameters(
        &self,
        step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        self.any.lambda_parameters(step, fields).map_err(|error| self.named(error))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs<'_>) -> Result<FieldRef> {
        for arg in args.arg_fields {
            if let ValueOrLambda::Lambda(condition) = arg
                && *condition.data_type() != DataType::Boolean
            {
                let message = format!("{NAME} needs a condition, and got {}", condition.data_type());
                return Err(DataFusionError::Plan(message));
            }
        }
        self.any.return_field_from_args(args).map_err(|error| self.named(error))
    }

    fn invoke_with_args(&self, _: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        Err(DataFusionError::Internal(format!("{NAME} was not replaced")))
    }
}

/// Replaces `array_all_match(list, e -> …)` by `NOT array_any_match(list, e -> NOT …)`.
#[derive(Debug)]
pub struct AllAsAny;

impl AnalyzerRule for AllAsAny {
    fn name(&self) -> &'static str {
        "all_as_any"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Ok(rewrite_exprs(plan, &|expr, _| replace(expr))?.data)
    }
}

fn replace(expr: &mut Expr) -> bool {
    let Expr::HigherOrderFunction(call) = expr else { return false };
    if call.name() != NAME {
        return false;
    }
    let mut args = std::mem::take(&mut call.args);
    for arg in &mut args {
        if let Expr::Lambda(lambda) = arg {
            *lambda.body = Expr::Not(std::mem::take(&mut lambda.body));
        }
    }
    let any = HigherOrderFunction::new(array_any_match_higher_order_function(), args);
    *expr = Expr::Not(Box::new(Expr::HigherOrderFunction(any)));
    true
}
