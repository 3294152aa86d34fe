//! Finds out why an OSD does not support an operation, or which OSD did not answer.
//!
//! An OSD answers EOPNOTSUPP for a missing class, for a missing method, for an operation that an
//! erasure-coded pool does not support, and for a method that returns this errno itself. Two small
//! queries tell the causes apart.

use crate::connection::command;
use crate::errors::{Failure, c_string, lost};
use crate::ffi::{self, IoCtx};
use crate::libraries::DESCRIBE;
use crate::pool::RadosPool;
use benthic_core::error::errno;
use benthic_core::{ClassCall, ERASURE_CODED, Error, ErrorKind, ObjectId, Pool, Result};
use std::ffi::CStr;
use std::sync::Arc;

/// No object has this version.
const IMPOSSIBLE_VERSION: u64 = u64::MAX;

impl RadosPool {
    /// Returns the error of a failed operation. If an OSD did not support the operation, the error
    /// has the cause, as far as the queries find one. `call` is the method call of the operation,
    /// if it has one.
    pub(crate) async fn explain(
        &self,
        context: &Arc<IoCtx>,
        object: &ObjectId,
        call: Option<&ClassCall>,
        Failure { error, is_explained }: Failure,
    ) -> Error {
        let Some(call) = call else { return error };
        if is_explained || error.kind() != ErrorKind::Unsupported {
            return error;
        }
        self.shared().libraries.invalidate(&call.class);
        let Ok(message) = self.reason(context, object, call).await else { return error };
        let explained = Error::unsupported(message);
        error.context().fold(explained, |explained, (key, value)| explained.with(key, value))
    }

    /// The error of a call that was late and therefore cancelled.
    pub(crate) async fn late_call(&self, context: &IoCtx, object: &ObjectId, call: &ClassCall) -> Error {
        let message = "the method did not return in time, so the client cancelled the call; the method may still run or have \
             changed the object: find a hung OSD with `benthic health`, and do not repeat the call blindly";
        let error = Error::outcome_unknown(message)
            .with("class", &call.class)
            .with("method", &call.method)
            .with("timeout_s", self.shared().calls.timeout().as_secs_f32());
        match self.shared().primary_of(&context.address(object)).await {
            Ok(Some(osd)) => error.with("osd", osd),
            Ok(None) | Err(_) => error,
        }
    }

    async fn reason(
        &self,
        context: &Arc<IoCtx>,
        object: &ObjectId,
        call: &ClassCall,
    ) -> Result<&'static str> {
        let (class, method) = self.wire_names(call)?;
        Ok(if self.has(context, object, &class, &method).await? {
            if self.is_erasure_coded().await { ERASURE_CODED } else { "the method does not support this" }
        } else if !self.is_of_this_build(call) {
            "the OSDs have no such class or method; a class is a library in their osd_class_dir"
        } else if self.has(context, object, &class, DESCRIBE).await? {
            "the OSDs have another build of this class, without this method; run `benthic class install`, then restart the \
             OSDs: an OSD loads a file of the same name only when it starts"
        } else {
            "the OSDs do not have Benthic's classes; `benthic class install` installs them in the OSDs' osd_class_dir"
        })
    }

    /// Asks a monitor. If the monitor does not know, the pool counts as replicated.
    async fn is_erasure_coded(&self) -> bool {
        let question = serde_json::json!({
            "prefix": "osd pool get", "pool": self.name(), "var": "erasure_code_profile", "format": "json",
        });
        self.shared().run(move |shared| command(shared, &question)).await.is_ok()
    }

    /// Whether the OSD of an object can call a method. A guard that never holds keeps the method
    /// from running.
    async fn has(
        &self,
        context: &Arc<IoCtx>,
        object: &ObjectId,
        class: &CStr,
        method: &CStr,
    ) -> Result<bool> {
        let name = c_string(object.name())?;
        let permit = self.shared().in_flight.enter(0, context.address(object)).await?;
        let answer = {
            let mut probe = ffi::ReadOp::new(context).with_permit(permit);
            probe.assert_version(IMPOSSIBLE_VERSION);
            probe.exec(class, method, &[]);
            context.read(&name, probe, false, None)
        };
        Ok(answer.await.map_err(lost)?.result != -errno::EOPNOTSUPP)
    }
}
