//! The functions of a module that use the most fuel, and the stack trace of a call that fails. The
//! interpreter gives neither.
//!
//! [`rewrite`] makes each function of the module report its entry and its return. The host keeps
//! the call stack, and reads the fuel at each report. The reports use fuel themselves, a similar
//! amount each. A call of the original module shows the fuel without them, and the profile
//! subtracts the difference in equal parts.

use super::wrappers::{START, TABLE, rewrite};
use benthic_core::{Error as BenthicError, ErrorKind, GuestCost, MethodContext, Result as BenthicResult};
use benthic_program::exit::Outcome;
use benthic_program::session::Session;
use benthic_wasm::host::{self, Ended, Host};
use benthic_wasm::names::function_names;
use benthic_wasm::runtime::{Code, Growth, INITIALIZE, lend};
use benthic_wasm::{Limits, Module, canonicalize_nans};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wasmi::{Caller, CompilationMode, Config, Engine, Error, Func, Linker, Store, Val};

/// Calls of functions between two checks of the deadline.
const CALLS_UNCHECKED: u64 = 100_000;
const FUNCTIONS_SHOWN: usize = 20;
/// Twice the interpreter's limits, because of the wrappers.
const RECURSION_MAX: usize = 20_000;
const STACK_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The fuel that the calls of a module used.
#[derive(Clone)]
pub struct Profile(Arc<Mutex<ProfileState>>);

#[derive(Default)]
struct ProfileState {
    /// All calls so far, by the index of the function.
    functions: BTreeMap<u32, Used>,
    last: Trace,
}

/// The fuel that a function used.
#[derive(Clone, Copy, Default)]
struct Used {
    calls: u64,
    self_fuel: u64,
    total_fuel: u64,
    /// Calls of other functions: by the function itself, and below it.
    self_calls: u64,
    total_calls: u64,
    /// Calls that have not returned.
    active: u64,
}

/// One call of a method.
#[derive(Default)]
struct Trace {
    functions: BTreeMap<u32, Used>,
    stack: Vec<Frame>,
    calls: u64,
    fuel_left: u64,
    fuel_used: u64,
}

struct Frame {
    function: u32,
    fuel_left: u64,
    calls: u64,
}

/// Makes the calls of a module report to a profile.
///
/// # Errors
/// `Internal` if the module cannot be rewritten.
pub fn instrument(module: &Module) -> BenthicResult<Profile> {
    let internal = |error: String| {
        BenthicError::new(ErrorKind::Internal, format!("the module cannot be profiled: {error}"))
    };
    let wasm = canonicalize_nans(module.wasm())
        .and_then(|wasm| rewrite(&wasm))
        .map_err(|error| internal(error.to_string()))?;
    let mut config = Config::default();
    config
        .consume_fuel(true)
        // Otherwise the first call of a function uses fuel for its translation.
        .compilation_mode(CompilationMode::Eager)
        .set_max_recursion_depth(RECURSION_MAX)
        .set_max_stack_height(STACK_BYTES_MAX);
    let instrumented =
        wasmi::Module::new(&Engine::new(&config), wasm).map_err(|error| internal(error.to_string()))?;
    let profile = Profile(Arc::default());
    module.set_compiled(Box::new(Instrumented { module: instrumented, profile: profile.clone() }));
    Ok(profile)
}

impl Profile {
    fn lock(&self) -> MutexGuard<'_, ProfileState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the last call, which uses `plain_fuel` without the wrappers. Returns its call stack,
    /// the innermost function first. With `keep`, the call counts.
    pub fn end(&self, plain_fuel: u64, keep: bool) -> Vec<u32> {
        let mut state = self.lock();
        let mut trace = std::mem::take(&mut state.last);
        let innermost_first = trace.stack.iter().rev().map(|frame| frame.function).collect();
        while !trace.stack.is_empty() {
            trace.pop();
        }
        let of_wrappers = trace.fuel_used.saturating_sub(plain_fuel) / trace.calls.max(1);
        for (function, used) in trace.functions.into_iter().filter(|_| keep) {
            let sum = state.functions.entry(function).or_default();
            sum.calls += used.calls;
            sum.self_fuel += used.self_fuel.saturating_sub(used.self_calls * of_wrappers);
            sum.total_fuel += used.total_fuel.saturating_sub(used.total_calls * of_wrappers);
        }
        innermost_first
    }

    /// Prints the functions that used the most fuel themselves.
    pub fn print(&self, wasm: &[u8], session: &Session) -> Outcome {
        let state = self.lock();
        let mut functions: Vec<(u32, Used)> =
            state.functions.iter().map(|(index, used)| (*index, *used)).collect();
        functions.sort_by_key(|(index, used)| (std::cmp::Reverse(used.self_fuel), *index));
        let all: u64 = functions.iter().map(|(_, used)| used.self_fuel).sum();
        functions.truncate(FUNCTIONS_SHOWN);
        let indices: Vec<u32> = functions.iter().map(|(index, _)| *index).collect();
        let names = function_names(wasm, &indices);
        session.out.note(format_args!(
            "\n{:>14} {:>6} {:>14} {:>10}  function",
            "self fuel", "share", "total fuel", "calls"
        ))?;
        for ((_, used), name) in functions.iter().zip(names) {
            let percent = used.self_fuel as f64 * 100.0 / all.max(1) as f64;
            let Used { calls, self_fuel, total_fuel, .. } = *used;
            let line = format!("{self_fuel:>14} {percent:>5.1}% {total_fuel:>14} {calls:>10}  {name}");
            let value = || -> Value {
                json!({ "function": name, "self_fuel": self_fuel, "percent": percent, "total_fuel": total_fuel, "calls": calls })
            };
            session.out.result(&line, value)?;
        }
        Ok(())
    }
}

impl Trace {
    /// Takes an event, at which the store has this fuel left: the index of a function that begins,
    /// or a negative number when the innermost function returns.
    fn event(&mut self, event: i32, fuel_left: u64) {
        self.spend(fuel_left);
        let Ok(function) = u32::try_from(event) else {
            self.pop();
            return;
        };
        if let Some(caller) = self.stack.last() {
            self.functions.entry(caller.function).or_default().self_calls += 1;
        }
        self.calls += 1;
        let used = self.functions.entry(function).or_default();
        used.calls += 1;
        used.active += 1;
        self.stack.push(Frame { function, fuel_left, calls: self.calls });
    }

    /// Charges the fuel since the last event to the innermost function.
    fn spend(&mut self, fuel_left: u64) {
        let spent = self.fuel_left.saturating_sub(fuel_left);
        self.fuel_left = fuel_left;
        self.fuel_used += spent;
        if let Some(frame) = self.stack.last() {
            self.functions.entry(frame.function).or_default().self_fuel += spent;
        }
    }

    fn pop(&mut self) {
        let Some(frame) = self.stack.pop() else { return };
        let used = self.functions.entry(frame.function).or_default();
        used.active -= 1;
        // A function that calls itself counts once.
        if used.active == 0 {
            used.total_fuel += frame.fuel_left.saturating_sub(self.fuel_left);
            used.total_calls += self.calls - frame.calls;
        }
    }
}

/// The data of a store.
struct Data {
    host: Host,
    growth: Growth,
    trace: Trace,
}

struct Instrumented {
    module: wasmi::Module,
    profile: Profile,
}

impl Code for Instrumented {
    fn run(
        &self,
        context: &mut MethodContext<'_>,
        method: &str,
        call: host::Call,
        limits: Limits,
    ) -> (BenthicResult<Vec<u8>>, GuestCost) {
        lend(context, |context| {
            let trace = Trace { fuel_left: limits.fuel, ..Trace::default() };
            let data = Data { host: Host::new(context, call), growth: Growth::new(limits), trace };
            let mut store = Store::new(self.module.engine(), data);
            store.limiter(|data| &mut data.growth);
            let returned = call_export(&mut store, &self.module, method, limits.fuel);
            let ended = Ended::of_interpreter(returned, &store.data().growth);
            let left = store.get_fuel().unwrap_or_default();
            store.data_mut().trace.spend(left);
            let data = store.into_data();
            self.profile.lock().last = data.trace;
            let cost = GuestCost { fuel: limits.fuel - left, memory_bytes: data.growth.memory_bytes() };
            let (context, outcome) = data.host.finish(ended);
            (context, (outcome, cost))
        })
    }
}

fn call_export(
    store: &mut Store<Data>,
    module: &wasmi::Module,
    method: &str,
    fuel: u64,
) -> Result<i32, Error> {
    store.set_fuel(fuel)?;
    let mut linker = Linker::new(module.engine());
    link(&mut linker)?;
    let instance = linker.instantiate_and_start(&mut *store, module)?;
    let event = Func::wrap(&mut *store, |mut caller: Caller<'_, Data>, event: i32| -> Result<(), Error> {
        let fuel_left = caller.get_fuel()?;
        let data = caller.data_mut();
        data.trace.event(event, fuel_left);
        match data.trace.calls.is_multiple_of(CALLS_UNCHECKED) && data.host.is_late() {
            true => Err(Error::new("the deadline has passed")),
            false => Ok(()),
        }
    });
    let table = instance
        .get_table(&*store, TABLE)
        .ok_or_else(|| Error::new("the module has no table of wrappers"))?;
    table.set(&mut *store, 0, Val::from(event)).map_err(|error| Error::new(error.to_string()))?;
    // As the runtimes do; the second one is in modules of languages with a library that starts.
    for name in [START, INITIALIZE] {
        if let Some(start) = instance.get_func(&*store, name) {
            start.typed::<(), ()>(&*store)?.call(&mut *store, ())?;
        }
    }
    instance.get_typed_func::<(), i32>(&*store, method)?.call(store, ())
}

/// The module's memory, and the host.
fn parts<'a>(caller: &'a mut Caller<'_, Data>) -> Result<(&'a mut [u8], &'a mut Host), Error> {
    let memory = caller.get_export("memory").and_then(wasmi::Extern::into_memory);
    let memory = memory.ok_or_else(|| Error::new("the module has no memory"))?;
    let (memory, data) = memory.data_and_store_mut(caller);
    Ok((memory, &mut data.host))
}

benthic_wasm::define_link!(parts, Error::new);
