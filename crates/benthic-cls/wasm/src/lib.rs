//! `libcls_wasm_1.so`: WebAssembly modules inside ceph-osd. Modules are compiled from their second
//! call on, unless the OSD's environment has `BENTHIC_WASM_INTERPRET=1`: then no machine code is
//! generated, and modules with long computations run about 5 times slower.
//!
//! The administrator's rules are in the file `wasm_1.rules.json` beside the library
//! ([`benthic_wasm::rules`]).

mod compiler;

pub use compiler::{compile, compile_later};

use benthic_cls::library_path;
use benthic_core::ClassRegistry;
use benthic_wasm::Wasm;

fn classes() -> ClassRegistry {
    let interpret = std::env::var_os("BENTHIC_WASM_INTERPRET").is_some_and(|value| value == "1");
    let class = if interpret { Wasm::new() } else { Wasm::with_compiler(compile_later) };
    let Some(library) = library_path() else {
        panic!("/proc/self/maps does not show the file of this library, which has the rules beside it")
    };
    let rules = library.with_file_name(benthic_wasm::rules::FILE_NAME);
    ClassRegistry::new().with(class.with_callees(benthic_classes::registry()).with_rules(rules))
}

benthic_cls::export!("wasm_1", classes());
