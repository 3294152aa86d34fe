//! `libcls_wasm_1.so`: WebAssembly modules inside ceph-osd. Modules are compiled from their second call
//! on, unless the OSD's environment has `BENTHIC_WASM_INTERPRET=1`: then no machine code is generated,
//! and modules with long computations run about 5 times slower.
//!
//! The administrator's rules are in the file `wasm_1.rules.json` beside the library
//! ([`benthic_wasm::rules`]).

mod compiler;

pub use compiler::{compile, compile_later};

use benthic_core::ClassRegistry;
use benthic_wasm::Wasm;
use std::fs;
use std::path::PathBuf;

fn classes() -> ClassRegistry {
    let interpret = std::env::var_os("BENTHIC_WASM_INTERPRET").is_some_and(|value| value == "1");
    let class = if interpret { Wasm::new() } else { Wasm::with_compiler(compile_later) };
    let Some(library) = library_path() else {
        panic!("/proc/self/maps does not show the file of this library, which has the rules beside it")
    };
    let rules = library.with_file_name(benthic_wasm::rules::FILE_NAME);
    ClassRegistry::new().with(class.with_callees(benthic_classes::registry()).with_rules(rules))
}

/// The file of this library, which the kernel knows from the code that it mapped.
fn library_path() -> Option<PathBuf> {
    let here = library_path as *const () as usize;
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let address = |hex| usize::from_str_radix(hex, 16).ok();
        range.is_some_and(|(from, to)| address(from) <= Some(here) && Some(here) < address(to))
    })?;
    line.find('/').map(|start| PathBuf::from(&line[start..]))
}

benthic_cls::export!("wasm_1", classes());
