//! Runs modules with wasmtime's compiler Cranelift.
//!
//! The code runs inside ceph-osd, which has its own signal handlers: traps are explicit checks
//! here, never signals. An instance reserves no address space beyond its memory. Machine code comes
//! only from the compiler in this process, never from a client.
//!
//! Our code starts two threads in an OSD, both here, and none elsewhere. A thread of low priority
//! compiles ([`compile_later`]); until it is done, calls are interpreted. The reason: a call holds
//! its placement group, and Cranelift needs 8 s and 1.2 GB for some modules of 83 KiB
//! (docs/design/0007). The other thread makes calls check their deadline every [`TICK`], because
//! fuel counts instructions and not time. The compiler also refuses functions with many locals and
//! much code; a module with such a function stays interpreted.

use benthic_core::{Error as BenthicError, ErrorKind, GuestCost, MethodContext, Result as BenthicResult};
use benthic_wasm::host::{self, Ended, Host};
use benthic_wasm::names::{FRAMES_MAX, with_functions};
use benthic_wasm::runtime::{Code, Growth, INITIALIZE, lend};
use benthic_wasm::{Limits, Module};
use bytes::Bytes;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, channel, sync_channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use wasmtime::{
    Caller, Config, Engine, Error, FrameInfo, InstancePre, Linker, ResourceLimiter, Store, Strategy, Trap,
    UpdateDeadline, WasmBacktrace,
};

/// Limit of the modules that are compiled. Go's smallest modules have 2 MiB and would need 10 s and
/// 1.1 GB (docs/design/0007).
const MODULE_BYTES_MAX: usize = 1024 * 1024;
/// Limits of a function: of its code, and of the product of code and locals, because the compiler's
/// time grows with it.
const FUNCTION_BYTES_MAX: usize = 64 * 1024;
const FUNCTION_COST_MAX: u64 = 8 * 1024 * 1024;
/// Limit of the modules that wait for the compiler.
const QUEUE_MODULES_MAX: usize = 64;

const STACK_BYTES_MAX: usize = 256 * 1024;
/// The stack of the thread that compiles.
const THREAD_STACK_BYTES: usize = 8 * 1024 * 1024;

static ENGINE: LazyLock<Result<Engine, String>> = LazyLock::new(|| {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .consume_fuel(true)
        .epoch_interruption(true)
        .signals_based_traps(false)
        .wasm_backtrace_max_frames(NonZeroUsize::new(FRAMES_MAX))
        .cranelift_nan_canonicalization(true)
        .max_wasm_stack(STACK_BYTES_MAX)
        .memory_reservation(0)
        .memory_reservation_for_growth(0)
        .memory_guard_size(0)
        .memory_init_cow(false)
        .wasm_simd(false)
        .wasm_relaxed_simd(false)
        .wasm_multi_memory(false)
        .wasm_multi_value(false)
        .wasm_memory64(false);
    Engine::new(&config).map_err(|error| format!("{error:#}"))
});

/// The data of a store.
struct Data {
    host: Host,
    limiter: Limiter,
}

struct Limiter(Growth);

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, _: usize, len_bytes: usize, max: Option<usize>) -> Result<bool, Error> {
        Ok(self.0.allows_memory(len_bytes, max))
    }

    fn table_growing(&mut self, _: usize, entries: usize, _: Option<usize>) -> Result<bool, Error> {
        Ok(self.0.allows_table(entries))
    }
}

/// A compiled module.
struct Compiled {
    instance: InstancePre<Data>,
    /// For the names of its functions.
    wasm: Bytes,
}

/// Time between two checks of a call's deadline.
const TICK: Duration = Duration::from_millis(50);

/// Starts the thread that makes calls check their deadline. Returns whether it runs.
static TICKER: LazyLock<bool> = LazyLock::new(|| {
    let tick = || {
        // Nothing is ever sent; the time-out of the receiver is the clock.
        let (_sender, never) = channel::<()>();
        while let (Ok(engine), Err(RecvTimeoutError::Timeout)) = (&*ENGINE, never.recv_timeout(TICK)) {
            engine.increment_epoch();
        }
    };
    std::thread::Builder::new().name("benthic_tick".to_owned()).spawn(tick).is_ok()
});

/// The queue of the thread that compiles; `None` if it could not be started.
static QUEUE: LazyLock<Option<SyncSender<Arc<Module>>>> = LazyLock::new(|| {
    let (sender, queue) = sync_channel::<Arc<Module>>(QUEUE_MODULES_MAX);
    let compile_all = move || {
        // If the priority cannot be lowered, the thread competes with the OSD's own threads.
        let _ = rustix::process::setpriority_process(None, 19);
        for module in queue {
            // A module that cannot be compiled stays interpreted. After a panic of the compiler the
            // thread goes on with other modules.
            let _ = catch_unwind(AssertUnwindSafe(|| compile(&module)));
        }
    };
    let thread = std::thread::Builder::new().name("benthic_wasm".to_owned()).stack_size(THREAD_STACK_BYTES);
    thread.spawn(compile_all).ok()?;
    Some(sender)
});

/// Has the thread compile a module. If the queue is full, the module stays interpreted for now.
pub fn compile_later(module: &Arc<Module>) {
    if let Some(queue) = &*QUEUE {
        let _ = queue.try_send(Arc::clone(module));
    }
}

/// Compiles a module now.
///
/// # Errors
/// `LimitExceeded` if the module or one of its functions is too large; `Internal` if the processor
/// is not supported or the compiler fails.
pub fn compile(module: &Module) -> BenthicResult<()> {
    if module.is_compiled() {
        return Ok(());
    }
    check_size(module.wasm())?;
    if !*TICKER {
        return Err(BenthicError::new(ErrorKind::Internal, "a thread cannot be started"));
    }
    let internal = |error: &str| BenthicError::new(ErrorKind::Internal, error);
    let engine = ENGINE.as_ref().map_err(|error| internal(error))?;
    let compiled =
        Compiled::prepare(engine, module.wasm()).map_err(|error| internal(&format!("{error:#}")))?;
    module.set_compiled(Box::new(compiled));
    Ok(())
}

fn check_size(wasm: &[u8]) -> BenthicResult<()> {
    let too_large = |what: &str| Err(BenthicError::new(ErrorKind::LimitExceeded, what));
    if wasm.len() > MODULE_BYTES_MAX {
        return too_large("it is too large to be compiled");
    }
    for payload in wasmparser::Parser::new(0).parse_all(wasm) {
        let Ok(wasmparser::Payload::CodeSectionEntry(function)) = payload else { continue };
        let len_bytes = function.range().len();
        let mut locals = 0;
        for group in function.get_locals_reader().into_iter().flatten().flatten() {
            locals += u64::from(group.0);
        }
        if len_bytes > FUNCTION_BYTES_MAX || len_bytes as u64 * (locals + 16) > FUNCTION_COST_MAX {
            return too_large("one of its functions is too large to be compiled");
        }
    }
    Ok(())
}

impl Compiled {
    fn prepare(engine: &Engine, wasm: &Bytes) -> Result<Compiled, Error> {
        let mut linker = Linker::new(engine);
        link(&mut linker)?;
        let instance = linker.instantiate_pre(&wasmtime::Module::new(engine, wasm)?)?;
        Ok(Compiled { instance, wasm: wasm.clone() })
    }

    fn call_export(&self, store: &mut Store<Data>, method: &str, fuel: u64) -> Result<i32, Error> {
        store.set_fuel(fuel)?;
        let instance = self.instance.instantiate(&mut *store)?;
        if let Some(initialize) = instance.get_func(&mut *store, INITIALIZE) {
            initialize.typed::<(), ()>(&store)?.call(&mut *store, ())?;
        }
        instance.get_typed_func::<(), i32>(&mut *store, method)?.call(store, ())
    }
}

impl Code for Compiled {
    fn run(
        &self,
        context: &mut MethodContext<'_>,
        method: &str,
        call: host::Call,
        limits: Limits,
    ) -> (BenthicResult<Vec<u8>>, GuestCost) {
        lend(context, |context| {
            let engine = self.instance.module().engine();
            let data = Data { host: Host::new(context, call), limiter: Limiter(Growth::new(limits)) };
            let mut store = Store::new(engine, data);
            store.limiter(|data| &mut data.limiter);
            store.set_epoch_deadline(1);
            store.epoch_deadline_callback(|mut store| match store.data_mut().host.is_late() {
                true => Err(Error::msg("the deadline has passed")),
                false => Ok(UpdateDeadline::Continue(1)),
            });
            let mut functions = Vec::new();
            let ended = match self.call_export(&mut store, method, limits.fuel) {
                Ok(number) => Ended::Returned(number),
                Err(error) => {
                    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
                        functions = backtrace.frames().iter().map(FrameInfo::func_index).collect();
                    }
                    match error.downcast_ref::<Trap>() {
                        Some(Trap::OutOfFuel) => Ended::OutOfFuel,
                        Some(Trap::StackOverflow) => Ended::OutOfStack,
                        _ if store.data().limiter.0.is_refused() => Ended::OutOfMemory,
                        Some(trap) => Ended::Trapped(trap.to_string()),
                        None => Ended::Trapped(error.root_cause().to_string()),
                    }
                }
            };
            let fuel = limits.fuel - store.get_fuel().unwrap_or_default();
            let Data { host, limiter: Limiter(growth) } = store.into_data();
            let (context, outcome) = host.finish(ended);
            let outcome = outcome.map_err(|error| with_functions(error, &self.wasm, &functions));
            (context, (outcome, GuestCost { fuel, memory_bytes: growth.memory_bytes() }))
        })
    }
}

/// The module's memory, and the host.
fn parts<'a>(caller: &'a mut Caller<'_, Data>) -> Result<(&'a mut [u8], &'a mut Host), Error> {
    let memory = caller.get_export("memory").and_then(wasmtime::Extern::into_memory);
    let memory = memory.ok_or_else(|| Error::msg("the module has no memory"))?;
    let (memory, data) = memory.data_and_store_mut(caller);
    Ok((memory, &mut data.host))
}

benthic_wasm::define_link!(parts, Error::msg);
