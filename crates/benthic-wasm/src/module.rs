//! A module that is ready to run, and the limits of a call.

use crate::interpreter::Interpreted;
use crate::runtime::Code;
use crate::{Manifest, host};
use benthic_core::{Error, GuestCost, MethodContext, Result};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limit of a module's size. Go's smallest modules are just below 2 MiB.
pub const MODULE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A new instance sets its memory to zero.
const MEMORY_BYTES_PER_FUEL: u64 = 64;

/// The SHA-256 of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModuleId(pub [u8; 32]);

impl ModuleId {
    pub fn of(wasm: &[u8]) -> ModuleId {
        ModuleId(Sha256::digest(wasm).into())
    }

    /// The first 12 hexadecimal digits, which name a version in output for people.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }

    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<ModuleId> {
        let mut id = [0; 32];
        if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(ModuleId(id))
    }
}

impl fmt::Display for ModuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The limits of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// About one unit per instruction of the module, and one per byte that the host copies for it.
    pub fuel: u64,
    /// The module's memory.
    pub memory_bytes: u64,
}

impl Limits {
    /// No call may have more. Ordinary code uses this fuel in 1 to 3 s if it is compiled, and in 10
    /// to 20 s if it is interpreted. The method's deadline ends a call before.
    pub const MAX: Limits = Limits { fuel: 4_000_000_000, memory_bytes: 64 * 1024 * 1024 };

    /// These limits, or the maximum where they exceed it.
    #[must_use]
    pub fn clamped(self) -> Limits {
        self.within(Limits::MAX)
    }

    /// The smaller ones of two limits.
    #[must_use]
    pub fn within(self, other: Limits) -> Limits {
        Limits { fuel: self.fuel.min(other.fuel), memory_bytes: self.memory_bytes.min(other.memory_bytes) }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { fuel: 1_000_000_000, memory_bytes: 16 * 1024 * 1024 }
    }
}

/// A checked module, ready to run. At first it is interpreted; a compiler may add machine code
/// later.
pub struct Module {
    id: ModuleId,
    wasm: Bytes,
    manifest: Manifest,
    /// The memory with which an instance starts.
    memory_bytes: u64,
    interpreted: Interpreted,
    compiled: OnceLock<Box<dyn Code>>,
    calls: AtomicU64,
}

impl Module {
    /// Checks a module and prepares it for the interpreter.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not a module, has no valid manifest, imports or exports something
    /// else than the interface has, or uses instructions that are not allowed; `LimitExceeded` if
    /// it is too large.
    pub fn new(wasm: &Bytes) -> Result<Module> {
        if wasm.len() > MODULE_BYTES_MAX {
            return Err(Error::limit_exceeded("the module is too large")
                .with("len_bytes", wasm.len())
                .with("len_bytes_max", MODULE_BYTES_MAX));
        }
        let interpreted = Interpreted::new(wasm)?;
        let Some(section) = interpreted.section(crate::MANIFEST_SECTION) else {
            return Err(Error::invalid_argument("the module has no manifest; `benthic class build` adds it"));
        };
        let manifest = Manifest::parse(section)?;
        let memory_bytes = interpreted.memory_bytes()?;
        check_memory(memory_bytes, Limits::MAX)?;
        interpreted.check(&manifest)?;
        Ok(Module {
            id: ModuleId::of(wasm),
            wasm: wasm.clone(),
            manifest,
            memory_bytes,
            interpreted,
            compiled: OnceLock::new(),
            calls: AtomicU64::new(0),
        })
    }

    pub fn id(&self) -> ModuleId {
        self.id
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub fn wasm(&self) -> &Bytes {
        &self.wasm
    }

    /// The module's instructions, from which its memory can be estimated.
    pub(crate) fn instructions(&self) -> u64 {
        self.interpreted.costs().instructions
    }

    /// Whether calls run machine code.
    pub fn is_compiled(&self) -> bool {
        self.compiled.get().is_some()
    }

    /// Makes calls from now on run this code. The first code stays.
    pub fn set_compiled(&self, code: Box<dyn Code>) {
        self.compiled.get_or_init(|| code);
    }

    /// Whether this call is the one after which the module should be compiled: the second, and, as
    /// the compiler may have been busy, the fourth, the eighth and so on.
    pub(crate) fn wants_compiler(&self) -> bool {
        let calls = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        calls > 1 && calls.is_power_of_two() && !self.is_compiled()
    }

    /// Runs a method beside an object. Returns its outcome, with the errors of
    /// [`exec`](crate::exec), and its fuel and peak memory.
    pub fn run(
        &self,
        context: &mut MethodContext<'_>,
        method: &str,
        input: Bytes,
        limits: Limits,
    ) -> (Result<Vec<u8>>, GuestCost) {
        let limits = limits.clamped();
        let declared = self.manifest.method(method).and_then(|declared| {
            check_memory(self.memory_bytes, limits)?;
            // The memory that the module may get, whether it uses it or not.
            context.charge_memory(limits.memory_bytes)?;
            Ok(declared)
        });
        let call = match declared {
            Ok(method) => host::Call { reads: method.reads, writes: method.writes, input },
            Err(error) => return (Err(error), GuestCost::default()),
        };
        let instance_fuel =
            self.interpreted.costs().instance_fuel + self.memory_bytes / MEMORY_BYTES_PER_FUEL;
        let Some(fuel) = limits.fuel.checked_sub(instance_fuel) else {
            return (Err(host::out_of_fuel()), GuestCost { fuel: limits.fuel, memory_bytes: 0 });
        };
        let limits = Limits { fuel, ..limits };
        let (outcome, cost) = match self.compiled.get() {
            Some(code) => code.run(context, method, call, limits),
            None => self.interpreted.run(context, method, call, limits),
        };
        (outcome, GuestCost { fuel: cost.fuel + instance_fuel, ..cost })
    }
}

fn check_memory(memory_bytes: u64, limits: Limits) -> Result<()> {
    if memory_bytes <= limits.memory_bytes {
        return Ok(());
    }
    Err(Error::limit_exceeded("the module starts with more memory than its limit")
        .with("memory_bytes", memory_bytes)
        .with("memory_bytes_max", limits.memory_bytes))
}
