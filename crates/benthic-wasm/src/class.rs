//! The native class `wasm`, which runs modules.

use crate::rules::{Rights, Rules, RulesFile};
use crate::runtime::Compile;
use crate::{Call, Module, ModuleId, Signatures};
use benthic_core::{
    Class, ClassRegistry, Error, GuestMethod, Method, MethodContext, MethodFlags, MethodResult, Result,
};
use bytes::Bytes;
use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use std::path::PathBuf;
use std::sync::{Arc, LazyLock, OnceLock};

/// Limit of the modules that the cache keeps, by the estimate of [`ByMemory`].
const CACHE_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// An estimate of the modules that fit.
const CACHE_MODULES: usize = 256;

/// The modules of this process. All stores that it has open share them: a module is identified by
/// its content.
static MODULES: LazyLock<Cache<ModuleId, Loaded, ByMemory>> = LazyLock::new(|| {
    let options = OptionsBuilder::new()
        // A shard keeps no entry that is larger than the shard.
        .shards(1)
        .estimated_items_capacity(CACHE_MODULES)
        .weight_capacity(CACHE_BYTES_MAX)
        .build();
    let options = options.unwrap_or_else(|error| unreachable!("the options are constants: {error}"));
    Cache::with_options(options, ByMemory, DefaultHashBuilder::default(), DefaultLifecycle::default())
});

/// A module, and its rights by the rules of a generation.
#[derive(Clone)]
struct Loaded {
    module: Arc<Module>,
    rights: Arc<Rights>,
    generation: u64,
}

/// Estimates the memory of a translated module.
#[derive(Clone)]
struct ByMemory;

impl Weighter<ModuleId, Loaded> for ByMemory {
    fn weight(&self, _: &ModuleId, loaded: &Loaded) -> u64 {
        // Measured: docs/design/0007. The machine code may come later.
        let instruction_bytes = if COMPILE.get().is_some() { 16 } else { 8 };
        64 * 1024 + loaded.module.wasm().len() as u64 + instruction_bytes * loaded.module.instructions()
    }
}

/// The compiler of this process, if it has one.
static COMPILE: OnceLock<Compile> = OnceLock::new();

/// The administrator's rules of this process.
static RULES: LazyLock<RulesFile> = LazyLock::new(|| RulesFile::new(RULES_PATH.get().cloned()));
static RULES_PATH: OnceLock<PathBuf> = OnceLock::new();

/// The native classes that modules may call.
static CALLEES: OnceLock<ClassRegistry> = OnceLock::new();

/// A method of a native class that modules may call.
///
/// # Errors
/// `Unsupported`.
pub(crate) fn callee(class: &str, method: &str) -> Result<&'static Method> {
    match CALLEES.get() {
        Some(classes) => classes.method(class, method),
        None => ClassRegistry::new().method(class, method),
    }
}

/// The class.
pub struct Wasm(());

impl Wasm {
    pub const NAME: &str = "wasm";

    /// The class that interprets modules.
    pub fn new() -> Wasm {
        Wasm(())
    }

    /// The class that has modules compiled from their second call on. It applies to the whole
    /// process, because methods are functions without state.
    pub fn with_compiler(compile: Compile) -> Wasm {
        COMPILE.get_or_init(|| compile);
        Wasm(())
    }

    /// The class whose modules may call these native classes. It applies to the whole process.
    #[must_use]
    pub fn with_callees(self, classes: ClassRegistry) -> Wasm {
        CALLEES.get_or_init(|| classes);
        self
    }

    /// The class with the rules in a file. They apply to the whole process.
    #[must_use]
    pub fn with_rules(self, path: PathBuf) -> Wasm {
        RULES_PATH.get_or_init(|| path);
        self
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

pub(crate) const METHODS: &[Method] = &[
    method(
        "run_read",
        MethodFlags::READ,
        |context, input| run(context, input, false),
        MethodResult::Output,
        "run a method of a WebAssembly module that only reads",
    ),
    method(
        "check",
        MethodFlags::READ,
        check,
        MethodResult::Output,
        "check that the rules let a WebAssembly module run, and prepare it",
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
    let now_ms = now_ms(context);
    let rules = RULES.current(now_ms);
    let Loaded { module, rights, .. } = find(&call, &rules)?;
    if let Some(compile) = COMPILE.get()
        && module.wants_compiler()
    {
        compile(&module);
    }
    if module.manifest().method(&call.method)?.writes {
        if !writes {
            let message = "the method writes; call it through run_write";
            return Err(Error::invalid_argument(message).with("method", &call.method));
        }
        rights.check_writes()?;
    }
    context.enter_guest(GuestMethod {
        class: module.manifest().class.clone(),
        version: call.module.short(),
        method: call.method.clone(),
    });
    let quotas = rules.quotas(&rights, context.client(), now_ms)?;
    let (ended, cost) = module.run(context, &call.method, call.input, call.limits.within(rights.limits));
    context.count_guest(cost);
    quotas.spend(cost.fuel, self::now_ms(context));
    ended.map_err(|error| error.with("class", &module.manifest().class).with("method", &call.method))
}

fn now_ms(context: &MethodContext<'_>) -> u64 {
    context.monotonic().as_millis().try_into().unwrap_or(u64::MAX)
}

/// Checks that a module may run, and prepares it.
fn check(context: &mut MethodContext<'_>, input: &[u8]) -> Result<Vec<u8>> {
    let call = Call::decode(&Bytes::copy_from_slice(input))?;
    let Loaded { module, rights, .. } = find(&call, &RULES.current(now_ms(context)))?;
    if module.manifest().methods.iter().any(|method| method.writes) {
        rights.check_writes()?;
    }
    Ok(Vec::new())
}

/// The module of a call: the cached one, or the attached one.
fn find(call: &Call, rules: &Rules) -> Result<Loaded> {
    // A module that was loaded under earlier rules is checked again.
    if let Some(loaded) = MODULES.get(&call.module).filter(|loaded| loaded.generation == rules.generation) {
        return Ok(loaded);
    }
    let Some(attached) = &call.attached else {
        let message = "the module is not cached here; repeat the call with the module attached";
        return Err(Error::busy(message).with("module", call.module));
    };
    if ModuleId::of(attached) != call.module {
        let message = "the attached module has another hash than the call says";
        return Err(Error::invalid_argument(message).with("module", call.module));
    }
    // The signature first: nothing else of a module that may not run is read.
    let rights = rules.rights(&Signatures::read(attached)?)?;
    // A copy, because the attached module shares the memory of the whole call.
    let module = Arc::new(Module::new(&Bytes::copy_from_slice(attached))?);
    rights.check_class(&module.manifest().class)?;
    let loaded = Loaded { module, rights, generation: rules.generation };
    MODULES.insert(call.module, loaded.clone());
    Ok(loaded)
}
