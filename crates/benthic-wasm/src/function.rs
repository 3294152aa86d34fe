//! A reading method as a function of its input. It runs beside an object that does not exist, so
//! its result depends on nothing else. It is called through the class [`Wasm`](crate::Wasm), so
//! that the administrator's rules and quotas hold.

use crate::class::METHODS;
use crate::{Call, Limits, ModuleId};
use benthic_core::{
    CallFunction, Clock, Error, ErrorKind, FunctionCall, MethodLimits, NoObject, Result, SystemClock,
    call_method, limits,
};
use bytes::Bytes;
use std::fmt;
use std::time::Duration;

/// A reading method of a module.
#[derive(Clone, PartialEq, Eq)]
pub struct Function {
    pub module: ModuleId,
    pub limits: Limits,
    pub method: String,
    /// The module itself, for a process that has not cached it. Empty in an OSD.
    pub wasm: Bytes,
    /// Whether the engine runs the module, as far as is known.
    pub is_run_by_engine: bool,
}

impl fmt::Debug for Function {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.method, self.module.short())
    }
}

/// How functions are called.
#[derive(Clone, Copy, Debug)]
pub struct Calls {
    /// Calls methods of the class [`Wasm`](crate::Wasm).
    pub call: CallFunction,
    /// The client for which they are called; see
    /// [`ObjectAccess::client`](benthic_core::ObjectAccess::client).
    pub client: Option<u64>,
    /// When all calls must have ended, on [`SystemClock`]. Without it, each call has the time of a
    /// method.
    pub end: Option<Duration>,
}

impl Calls {
    /// Calls in this process, which is the client itself.
    pub const HERE: Calls = Calls { call: call_function, client: None, end: None };

    fn call(&self, name: &str, call: &Call) -> Result<Bytes> {
        let time_left = match self.end {
            Some(end) => end.saturating_sub(SystemClock.monotonic()),
            None => Duration::from_millis(limits::METHOD_DEADLINE_MS),
        };
        (self.call)(&FunctionCall { name, input: &call.encode(), client: self.client, time_left })
    }
}

impl Function {
    /// Calls the method with this input, in a new instance of the module.
    ///
    /// # Errors
    /// Errors of [`exec`](crate::exec). `InvalidArgument` if the method writes.
    pub fn call(&self, input: Bytes, calls: &Calls) -> Result<Bytes> {
        let mut call = self.to_call(input);
        match calls.call("wasm.run_read", &call) {
            Err(error) if error.kind() == ErrorKind::Busy && !self.wasm.is_empty() => {
                call.attached = Some(self.wasm.clone());
                calls.call("wasm.run_read", &call)
            }
            called => called,
        }
    }

    /// Checks that the method can be called.
    ///
    /// # Errors
    /// `Busy` if the module is not cached there; `PermissionDenied` if the rules forbid it.
    pub fn check(&self, calls: &Calls) -> Result<()> {
        calls.call("wasm.check", &self.to_call(Bytes::new())).map(drop)
    }

    /// The input of `wasm.check`, with the module.
    pub fn attached(&self) -> Bytes {
        Call { attached: Some(self.wasm.clone()), ..self.to_call(Bytes::new()) }.encode().into()
    }

    /// The call of the method with this input, without the module.
    pub fn to_call(&self, input: Bytes) -> Call {
        Call { module: self.module, limits: self.limits, method: self.method.clone(), input, attached: None }
    }
}

/// Calls a method of the class [`Wasm`](crate::Wasm) in this process.
///
/// # Errors
/// Those of the method; `Unsupported` if it does not exist.
pub fn call_function(call: &FunctionCall<'_>) -> Result<Bytes> {
    let name = call.name.strip_prefix("wasm.");
    let Some(method) = METHODS.iter().find(|method| Some(method.name) == name) else {
        return Err(Error::unsupported("no such method").with("method", call.name));
    };
    let usual = MethodLimits::default();
    let left_ms = u64::try_from(call.time_left.as_millis()).unwrap_or(u64::MAX);
    let limits = MethodLimits { deadline_ms: left_ms.min(usual.deadline_ms), ..usual };
    call_method(method, &mut NoObject::for_client(call.client), &SystemClock, limits, call.input)
}
