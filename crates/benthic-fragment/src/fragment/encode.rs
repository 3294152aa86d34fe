//! The client's part: encodes the operators of a fragment as the protobuf message that a request
//! carries to the OSD. `decode.rs` is the inverse.
//!
//! The bytes are those of DataFusion's own encoder (`datafusion-proto`), which would link a catalog
//! and every file format. DataFusion's operators and expressions can encode themselves, if an
//! encoder for their inputs is passed to them. This file is that encoder. A call of a
//! function cannot encode itself, so this file encodes it.

use crate::wasm::{Methods, call_of};
use arrow::datatypes::Schema;
use benthic_core::Error;
use bytes::Bytes;
use datafusion_common::{Result, not_impl_datafusion_err};
use datafusion_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use datafusion_physical_expr::{HigherOrderFunctionExpr, PhysicalExpr, ScalarFunctionExpr};
use datafusion_physical_expr_common::physical_expr::proto_encode::{
    PhysicalExprEncode, PhysicalExprEncodeCtx,
};
use datafusion_physical_plan::ExecutionPlan;
use datafusion_physical_plan::proto::{ExecutionPlanEncode, ExecutionPlanEncodeCtx};
use datafusion_proto_models::protobuf::physical_expr_node::ExprType;
use datafusion_proto_models::protobuf::physical_plan_node::PhysicalPlanType;
use datafusion_proto_models::protobuf::{
    PhysicalExprNode, PhysicalHigherOrderUdfNode, PhysicalPlanNode, PhysicalScalarUdfNode,
};
use parking_lot::Mutex;
use prost::Message;
use std::sync::Arc;

/// Encodes a plan for an [`Envelope`](super::Envelope), the request that carries it.
///
/// # Errors
/// `Unsupported` if a node has no encoding.
pub fn encode(plan: &Arc<dyn ExecutionPlan>) -> benthic_core::Result<Bytes> {
    encode_with_methods(plan).map(|(plan, _)| plan)
}

/// Encodes a plan, and lists the methods of WebAssembly classes that it calls. The
/// [`Envelope`](super::Envelope) has both.
///
/// # Errors
/// `Unsupported` if a node has no encoding.
pub fn encode_with_methods(plan: &Arc<dyn ExecutionPlan>) -> benthic_core::Result<(Bytes, Methods)> {
    let encoder = Encoder::default();
    let node = encoder
        .encode_plan(plan)
        .map_err(|error| Error::unsupported("the plan cannot be sent").with_source(error))?;
    Ok((Bytes::from(node.encode_to_vec()), encoder.methods.into_inner()))
}

#[derive(Default)]
struct Encoder {
    methods: Mutex<Methods>,
}

impl ExecutionPlanEncode for Encoder {
    fn encode_plan(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<PhysicalPlanNode> {
        let node = plan.try_to_proto(&ExecutionPlanEncodeCtx::new(self))?;
        let mut node = node.ok_or_else(|| not_impl_datafusion_err!("{} has no encoding", plan.name()))?;
        // A dynamic filter contains a random number; with it, equal plans would have different
        // bytes.
        if let Some(PhysicalPlanType::Sort(sort)) = &mut node.physical_plan_type {
            sort.dynamic_filter = None;
        }
        Ok(node)
    }

    fn encode_expr(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<PhysicalExprNode> {
        if let Some(node) = expr.try_to_proto(&PhysicalExprEncodeCtx::new(self))? {
            return Ok(node);
        }
        if let Some(call) = expr.downcast_ref::<HigherOrderFunctionExpr>() {
            let args = call.args().iter().map(|arg| self.encode_expr(arg)).collect::<Result<Vec<_>>>()?;
            let node =
                PhysicalHigherOrderUdfNode { name: call.name().to_owned(), args, fun_definition: None };
            return Ok(PhysicalExprNode { expr_id: None, expr_type: Some(ExprType::HigherOrderUdf(node)) });
        }
        let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() else {
            return Err(not_impl_datafusion_err!("{expr} has no encoding"));
        };
        if let Some((name, function)) = call_of(expr) {
            self.methods.lock().insert(name.to_owned(), function.clone());
        }
        let args = call.args().iter().map(|arg| self.encode_expr(arg)).collect::<Result<Vec<_>>>()?;
        Ok(PhysicalExprNode {
            expr_id: None,
            expr_type: Some(ExprType::ScalarUdf(PhysicalScalarUdfNode {
                name: call.name().to_owned(),
                args,
                fun_definition: None,
                return_type: Some(call.return_type().try_into()?),
                nullable: call.nullable(),
                return_field_name: call.return_field(&Schema::empty())?.name().clone(),
            })),
        })
    }

    // `None` means that a function's name is enough. The decoder looks it up among the functions of
    // the allow list.
    fn encode_udf(&self, _: &ScalarUDF) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn encode_udaf(&self, _: &AggregateUDF) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn encode_udwf(&self, _: &WindowUDF) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }
}

impl PhysicalExprEncode for Encoder {
    fn encode(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<PhysicalExprNode> {
        self.encode_expr(expr)
    }
}
