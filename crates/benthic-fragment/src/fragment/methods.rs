//! The methods of WebAssembly classes that a fragment calls.

use super::check::CALLS_MAX;
use super::envelope::{Envelope, Status, WasmMethod};
use super::ranges::Ranges;
use super::stop::{Stop, unsupported};
use crate::wasm::{Methods, WasmFunction};
use benthic_core::ErrorKind;
use benthic_wasm::{Function, Limits, ModuleId};
use bytes::Bytes;
use datafusion_expr::ScalarUDF;
use std::sync::Arc;

/// Limit of the outputs of all calls for one batch of rows. A client has a higher one.
const OUTPUT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The messages of these methods.
pub fn encode(methods: &Methods) -> Vec<WasmMethod> {
    let message = |(name, function): (&String, &Function)| WasmMethod {
        name: name.clone(),
        module: Bytes::copy_from_slice(&function.module.0),
        fuel: function.limits.fuel,
        memory_bytes: function.limits.memory_bytes,
    };
    methods.iter().map(message).collect()
}

/// Checks that all modules are cached and may run, and builds the function that calls them. `None`
/// if the fragment calls none.
pub(super) fn prepare(envelope: &Envelope, ranges: &dyn Ranges) -> Result<Option<Arc<ScalarUDF>>, Stop> {
    if envelope.methods.is_empty() {
        return Ok(None);
    }
    let Some(calls) = ranges.wasm_calls() else {
        return Err(unsupported("this method of the class runs no WebAssembly methods"));
    };
    let mut methods = Methods::new();
    for method in &envelope.methods {
        let function = function(method).ok_or_else(|| unsupported("a method is malformed"))?;
        function.check(&calls).map_err(|error| match error.kind() {
            // The OSD loads the library of the class `wasm` at its first call.
            ErrorKind::Busy | ErrorKind::Unsupported => Stop::Answer(Status::SendModules, error.text()),
            _ => unsupported(error.text()),
        })?;
        methods.insert(method.name.clone(), function);
    }
    let function = WasmFunction::new(methods, calls, OUTPUT_BYTES_MAX / CALLS_MAX);
    Ok(Some(Arc::new(ScalarUDF::from(function))))
}

fn function(message: &WasmMethod) -> Option<Function> {
    let (_, method) = message.name.split_once('.')?;
    Some(Function {
        module: ModuleId(message.module[..].try_into().ok()?),
        limits: Limits { fuel: message.fuel, memory_bytes: message.memory_bytes }.clamped(),
        method: method.to_owned(),
        wasm: Bytes::new(),
        is_run_by_engine: true,
    })
}
