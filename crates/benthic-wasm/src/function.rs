//! A reading method as a function of its input. It runs beside an object that does not exist, so its
//! result depends on nothing else. It is called through the class [`Wasm`](crate::Wasm), so that the
//! administrator's rules and quotas hold.

use crate::class::RUN_READ;
use crate::{Call, Limits, ModuleId};
use benthic_core::{
    Clock, Error, ErrorKind, LogLevel, MethodLimits, ObjectAccess, OmapPage, Result, Stat, call_method,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fmt;

/// A reading method of a module.
#[derive(Clone, PartialEq, Eq)]
pub struct Function {
    pub module: ModuleId,
    pub limits: Limits,
    pub method: String,
    /// The module itself, for a process that has not cached it.
    pub wasm: Bytes,
}

impl fmt::Debug for Function {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} of {}", self.method, self.module.short())
    }
}

impl Function {
    /// Calls the method with this input, in a new instance of the module.
    ///
    /// # Errors
    /// Errors of [`exec`](crate::exec). `InvalidArgument` if the method writes.
    pub fn call(&self, input: Bytes, clock: &dyn Clock) -> Result<Bytes> {
        let mut call = Call {
            module: self.module,
            limits: self.limits,
            method: self.method.clone(),
            input,
            attached: None,
        };
        let run = |call: &Call| {
            call_method(&RUN_READ, &mut NoObject, clock, MethodLimits::default(), &call.encode())
        };
        match run(&call) {
            Err(error) if error.kind() == ErrorKind::Busy => {
                call.attached = Some(self.wasm.clone());
                run(&call)
            }
            called => called,
        }
    }
}

/// An object that does not exist and cannot be created.
struct NoObject;

fn missing<T>() -> Result<T> {
    Err(Error::new(ErrorKind::NotFound, "a method that is called as a function has no object"))
}

impl ObjectAccess for NoObject {
    fn stat(&mut self) -> Result<Stat> {
        missing()
    }

    fn read(&mut self, _: u64, _: u64) -> Result<Bytes> {
        missing()
    }

    fn get_xattr(&mut self, _: &str) -> Result<Bytes> {
        missing()
    }

    fn list_xattrs(&mut self) -> Result<BTreeMap<String, Bytes>> {
        missing()
    }

    fn omap_get(&mut self, _: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>> {
        missing()
    }

    fn omap_range(&mut self, _: Option<&[u8]>, _: &[u8], _: usize) -> Result<OmapPage> {
        missing()
    }

    fn create(&mut self, _: bool) -> Result<()> {
        missing()
    }

    fn write(&mut self, _: u64, _: Bytes) -> Result<()> {
        missing()
    }

    fn write_full(&mut self, _: Bytes) -> Result<()> {
        missing()
    }

    fn truncate(&mut self, _: u64) -> Result<()> {
        missing()
    }

    fn zero(&mut self, _: u64, _: u64) -> Result<()> {
        missing()
    }

    fn remove(&mut self) -> Result<()> {
        missing()
    }

    fn set_xattr(&mut self, _: &str, _: Bytes) -> Result<()> {
        missing()
    }

    fn omap_set(&mut self, _: BTreeMap<Bytes, Bytes>) -> Result<()> {
        missing()
    }

    fn omap_remove(&mut self, _: &[Bytes]) -> Result<()> {
        missing()
    }

    fn omap_clear(&mut self) -> Result<()> {
        missing()
    }

    fn log(&mut self, _: LogLevel, _: &str) {}
}
