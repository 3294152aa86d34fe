//! The native class `wasm`, which runs modules.

use crate::runtime::Compile;
use crate::{Call, Module, ModuleId};
use benthic_core::{Class, Error, ErrorKind, Method, MethodContext, MethodFlags, MethodResult, Result};
use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use std::sync::{Arc, LazyLock, OnceLock};

/// Limit of the modules that the cache keeps, by the estimate of [`ByMemory`].
const CACHE_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// An estimate of the modules that fit.
const CACHE_MODULES: usize = 256;

/// The modules of this process. All stores that it has open share them: a module is identified by
/// its content.
static MODULES: LazyLock<Cache<ModuleId, Arc<Module>, ByMemory>> = LazyLock::new(|| {
    let options = OptionsBuilder::new()
        // A shard keeps no entry that is larger than the shard.
        .shards(1)
        .estimated_items_capacity(CACHE_MODULES)
        .weight_capacity(CACHE_BYTES_MAX)
        .build();
    let options = options.unwrap_or_else(|error| unreachable!("the options are constants: {error}"));
    Cache::with_options(options, ByMemory, DefaultHashBuilder::default(), DefaultLifecycle::default())
});

/// Estimates the memory of a translated module.
#[derive(Clone)]
struct ByMemory;

impl Weighter<ModuleId, Arc<Module>> for ByMemory {
    fn weight(&self, _: &ModuleId, module: &Arc<Module>) -> u64 {
        // Measured: docs/design/0007. The machine code may come later.
        let factor = if COMPILE.get().is_some() { 8 } else { 4 };
        64 * 1024 + factor * module.wasm().len() as u64
    }
}

/// The compiler of this process, if it has one.
static COMPILE: OnceLock<Compile> = OnceLock::new();

/// The class.
pub struct Wasm(());

impl Wasm {
    pub const NAME: &str = "wasm";

    /// The class that interprets modules.
    pub fn new() -> Wasm {
        Wasm(())
    }

    /// The class that has modules compiled from their second call on. It applies to the whole process,
    /// because methods are functions without state.
    pub fn with_compiler(compile: Compile) -> Wasm {
        COMPILE.get_or_init(|| compile);
        Wasm(())
    }
}

impl Default for Wasm {
    fn default() -> Wasm {
        Wasm::new()
    }
}

const INPUT: &str = "the module's hash, limits, the method and its input, and the module if it is not cached";

const fn method(
    name: &'static str,
    flags: MethodFlags,
    run: fn(&mut MethodContext<'_>, &[u8]) -> Result<Vec<u8>>,
    result: MethodResult,
    summary: &'static str,
) -> Method {
    Method {
        name,
        flags,
        run,
        result,
        summary,
        input: INPUT,
        output: "the output of the method",
        examples: &[],
    }
}

const METHODS: &[Method] = &[
    method(
        "run_read",
        MethodFlags::READ,
        |context, input| run(context, input, false),
        MethodResult::Output,
        "run a method of a WebAssembly module that only reads",
    ),
    method(
        "run_write",
        MethodFlags::READ_WRITE,
        |context, input| run(context, input, true),
        MethodResult::Nothing,
        "run a method of a WebAssembly module that may change the object",
    ),
];

impl Class for Wasm {
    fn name(&self) -> &'static str {
        Wasm::NAME
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "run methods of WebAssembly modules"
    }

    fn methods(&self) -> &'static [Method] {
        METHODS
    }
}

fn run(context: &mut MethodContext<'_>, input: &[u8], writes: bool) -> Result<Vec<u8>> {
    let call = Call::decode(&Bytes::copy_from_slice(input))?;
    let module = find(&call)?;
    if let Some(compile) = COMPILE.get()
        && module.wants_compiler()
    {
        compile(&module);
    }
    if module.manifest().method(&call.method)?.writes && !writes {
        let message = "the method writes; call it through run_write";
        return Err(Error::new(ErrorKind::InvalidArgument, message).with("method", &call.method));
    }
    module
        .run(context, &call.method, call.input, call.limits)
        .map_err(|error| error.with("class", &module.manifest().class))
}

/// The module of a call: the cached one, or the attached one.
fn find(call: &Call) -> Result<Arc<Module>> {
    if let Some(module) = MODULES.get(&call.module) {
        return Ok(module);
    }
    let Some(attached) = &call.attached else {
        let message = "the module is not cached here; repeat the call with the module attached";
        return Err(Error::new(ErrorKind::Busy, message).with("module", call.module));
    };
    if ModuleId::of(attached) != call.module {
        let message = "the attached module has another hash than the call says";
        return Err(Error::new(ErrorKind::InvalidArgument, message).with("module", call.module));
    }
    // A copy, because the attached module shares the memory of the whole call.
    let module = Arc::new(Module::new(&Bytes::copy_from_slice(attached))?);
    MODULES.insert(call.module, Arc::clone(&module));
    Ok(module)
}
