//! `libcls_wasm_1.so`: WebAssembly modules inside ceph-osd. Modules are compiled from their second call
//! on, unless the OSD's environment has `BENTHIC_WASM_INTERPRET=1`: then no machine code is generated,
//! and modules with long computations run about 5 times slower.

mod compiler;

pub use compiler::{compile, compile_later};

use benthic_core::ClassRegistry;
use benthic_wasm::Wasm;

fn classes() -> ClassRegistry {
    let interpret = std::env::var_os("BENTHIC_WASM_INTERPRET").is_some_and(|value| value == "1");
    ClassRegistry::new().with(if interpret { Wasm::new() } else { Wasm::with_compiler(compile_later) })
}

benthic_cls::export!("wasm_1", classes());
