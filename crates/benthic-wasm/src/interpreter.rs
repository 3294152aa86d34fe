//! Runs modules with wasmi, an interpreter. It generates no machine code, and is slower than
//! compiled code, by a factor of about 5 for long computations (docs/design/0007).

use crate::check::{Costs, check};
use crate::host::{self, Ended, Host, IMPORTS};
use crate::runtime::{Code, Growth, INITIALIZE, lend};
use crate::{Limits, Manifest};
use crate::{nan, wasi};
use benthic_core::{Error as BenthicError, ErrorKind, GuestCost, MethodContext, Result as BenthicResult};
use std::borrow::Cow;
use wasmi::errors::ErrorKind as WasmiErrorKind;
use wasmi::{
    Caller, CompilationMode, Config, Engine, Error, ExternType, Linker, Module, ResourceLimiter, Store,
    TrapCode, TypedFunc, TypedResumableCall, ValType, WasmResults,
};
use wasmi_core::LimiterError;

const PAGE_BYTES: u64 = 64 * 1024;
/// Fuel between two checks of the deadline: about 5 ms, or at most 0.5 s if every instruction waits
/// for memory.
const SLICE_FUEL: u64 = 1_000_000;
/// Limits of the interpreter's stack.
const RECURSION_MAX: usize = 10_000;
const STACK_BYTES_MAX: usize = 1024 * 1024;

/// Every module has an engine of its own, because an engine keeps all that it has translated.
fn engine() -> Engine {
    let mut config = Config::default();
    config
        .consume_fuel(true)
        .compilation_mode(CompilationMode::Eager)
        .set_max_recursion_depth(RECURSION_MAX)
        .set_max_stack_height(STACK_BYTES_MAX)
        // Otherwise each module keeps the stack of a call.
        .set_max_cached_stacks(0)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_multi_value(false)
        .wasm_tail_call(false)
        .wasm_extended_const(false)
        .wasm_custom_page_sizes(false)
        .wasm_wide_arithmetic(false);
    Engine::new(&config)
}

/// The data of a store.
pub struct Data {
    /// `None` in a store that runs nothing.
    host: Option<Host>,
    growth: Growth,
}

impl ResourceLimiter for Growth {
    fn memory_growing(
        &mut self,
        _: usize,
        len_bytes: usize,
        max: Option<usize>,
    ) -> Result<bool, LimiterError> {
        Ok(self.allows_memory(len_bytes, max))
    }

    fn table_growing(&mut self, _: usize, entries: usize, _: Option<usize>) -> Result<bool, LimiterError> {
        Ok(self.allows_table(entries))
    }

    fn instances(&self) -> usize {
        1
    }

    /// One of the module, and one of a profile.
    fn tables(&self) -> usize {
        2
    }

    fn memories(&self) -> usize {
        1
    }
}

/// A module for the interpreter.
pub struct Interpreted {
    module: Module,
    linker: Linker<Data>,
    costs: Costs,
}

impl Interpreted {
    /// Checks a module and translates it.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn new(wasm: &[u8]) -> BenthicResult<Interpreted> {
        let refused = |message: String| Err(BenthicError::new(ErrorKind::InvalidArgument, message));
        if !wasm.starts_with(b"\0asm") {
            return refused("this is not a WebAssembly module".to_owned());
        }
        let costs = check(wasm)?;
        let engine = engine();
        let mut linker = Linker::new(&engine);
        link(&mut linker).map_err(|error| BenthicError::new(ErrorKind::Internal, error.to_string()))?;
        let canonical = nan::canonicalize(wasm).unwrap_or(Cow::Borrowed(wasm));
        // Errors name places in the module of the caller.
        let translated = Module::new(&engine, &canonical)
            .map_err(|error| Module::new(&engine, wasm).err().unwrap_or(error));
        match translated {
            Ok(module) => Ok(Interpreted { module, linker, costs }),
            Err(error) => refused(format!(
                "this is not a valid module, or it uses features that are not allowed: {error}"
            )),
        }
    }

    /// The content of a custom section.
    pub fn section(&self, name: &str) -> Option<&[u8]> {
        self.module.custom_sections().find(|section| section.name() == name).map(|section| section.data())
    }

    pub fn costs(&self) -> Costs {
        self.costs
    }

    /// The memory with which an instance starts.
    ///
    /// # Errors
    /// `InvalidArgument` if the module does not export a memory.
    pub fn memory_bytes(&self) -> BenthicResult<u64> {
        match self.module.get_export("memory") {
            Some(ExternType::Memory(memory)) => Ok(memory.minimum().saturating_mul(PAGE_BYTES)),
            _ => {
                let message = "the module must export its memory as `memory`";
                Err(BenthicError::new(ErrorKind::InvalidArgument, message))
            }
        }
    }

    /// Checks the module's imports and exports. Its memory must be known to be within the limits.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn check(&self, manifest: &Manifest) -> BenthicResult<()> {
        let refused = |message: &str| BenthicError::new(ErrorKind::InvalidArgument, message);
        // An instance without fuel: it is linked, but its start function does not run.
        let mut store = new_store(&self.module, None, Limits::MAX);
        if let Err(error) = self.linker.instantiate_and_start(&mut store, &self.module)
            && let WasmiErrorKind::Linker(_) | WasmiErrorKind::Instantiation(_) = error.kind()
        {
            let message = format!(
                "the module cannot be linked to the functions of `{IMPORTS}` and the subset of `{}`; if it was built for a newer \
                 Benthic, install that build's program here and its libcls_wasm_1.so in the OSDs: {error}",
                wasi::IMPORTS
            );
            return Err(refused(&message));
        }
        if let Some(exported) = self.module.get_export(INITIALIZE)
            && !exported
                .func()
                .is_some_and(|function| function.params().is_empty() && function.results().is_empty())
        {
            return Err(refused(
                "the module's `_initialize` must be a function without parameters and results",
            ));
        }
        for method in &manifest.methods {
            let is_method = match self.module.get_export(&method.name) {
                Some(ExternType::Func(function)) => {
                    function.params().is_empty() && function.results() == [ValType::I32]
                }
                _ => false,
            };
            if !is_method {
                let message = "the module must export a function without parameters that returns an i32 for each method";
                return Err(refused(message).with("method", &method.name));
            }
        }
        Ok(())
    }
}

impl Code for Interpreted {
    fn run(
        &self,
        context: &mut MethodContext<'_>,
        method: &str,
        call: host::Call,
        limits: Limits,
    ) -> (BenthicResult<Vec<u8>>, GuestCost) {
        lend(context, |context| {
            let mut host = Host::new(context, call);
            host.reserve_fuel = limits.fuel;
            let mut store = new_store(&self.module, Some(host), limits);
            let returned = call_export(&mut store, self, method);
            let ended = Ended::of_interpreter(returned, &store.data().growth);
            let left = store.get_fuel().unwrap_or_default();
            let Data { host: Some(host), growth } = store.into_data() else {
                unreachable!("the store was created with a host")
            };
            let fuel = limits.fuel - host.reserve_fuel - left;
            let (context, outcome) = host.finish(ended);
            (context, (outcome, GuestCost { fuel, memory_bytes: growth.memory_bytes() }))
        })
    }
}

impl Ended {
    /// How a call ended in wasmi.
    pub fn of_interpreter(returned: Result<i32, Error>, growth: &Growth) -> Ended {
        match returned {
            Ok(number) => Ended::Returned(number),
            Err(error) => match error.as_trap_code() {
                Some(TrapCode::OutOfFuel) => Ended::OutOfFuel,
                Some(TrapCode::StackOverflow) => Ended::OutOfStack,
                _ if growth.is_refused() => Ended::OutOfMemory,
                _ => Ended::Trapped(error.to_string()),
            },
        }
    }
}

fn new_store(module: &Module, host: Option<Host>, limits: Limits) -> Store<Data> {
    let mut store = Store::new(module.engine(), Data { host, growth: Growth::new(limits) });
    store.limiter(|data| &mut data.growth);
    store
}

/// Runs an exported function in slices, and checks the deadline of the call after each: the
/// interpreter may be much slower than a limit of fuel assumes.
fn call_export(store: &mut Store<Data>, code: &Interpreted, method: &str) -> Result<i32, Error> {
    next_slice(store, 0)?;
    let instance = code.linker.instantiate_and_start(&mut *store, &code.module)?;
    if code.module.get_export(INITIALIZE).is_some() {
        let initialize = instance.get_typed_func::<(), ()>(&*store, INITIALIZE)?;
        run_in_slices(store, initialize)?;
    }
    run_in_slices(store, instance.get_typed_func::<(), i32>(&*store, method)?)
}

/// Gives the store fuel from the reserve of the call.
fn next_slice(store: &mut Store<Data>, needed: u64) -> Result<(), Error> {
    let store_fuel = store.get_fuel()?;
    let host = store.data_mut().host.as_mut().ok_or_else(|| Error::new("the store runs nothing"))?;
    let left = host.reserve_fuel + store_fuel;
    let slice = left.min(SLICE_FUEL.max(needed));
    if slice < needed || slice == 0 {
        return Err(Error::from(TrapCode::OutOfFuel));
    }
    host.reserve_fuel = left - slice;
    if host.is_late() {
        return Err(Error::new("the deadline has passed"));
    }
    store.set_fuel(slice)
}

fn run_in_slices<T: WasmResults>(store: &mut Store<Data>, function: TypedFunc<(), T>) -> Result<T, Error> {
    let mut running = function.call_resumable(&mut *store, ())?;
    loop {
        running = match running {
            TypedResumableCall::Finished(results) => return Ok(results),
            TypedResumableCall::HostTrap(trap) => return Err(Error::new(trap.host_error().to_string())),
            TypedResumableCall::OutOfFuel(paused) => {
                next_slice(store, paused.required_fuel())?;
                paused.resume(&mut *store)?
            }
        };
    }
}

/// The module's memory, and the host.
fn parts<'a>(caller: &'a mut Caller<'_, Data>) -> Result<(&'a mut [u8], &'a mut Host), Error> {
    let memory = caller.get_export("memory").and_then(wasmi::Extern::into_memory);
    let memory = memory.ok_or_else(|| Error::new("the module has no memory"))?;
    let (memory, data) = memory.data_and_store_mut(caller);
    let host = data.host.as_mut().ok_or_else(|| Error::new("the store runs nothing"))?;
    Ok((memory, host))
}

crate::define_link!(parts, Error::new);
