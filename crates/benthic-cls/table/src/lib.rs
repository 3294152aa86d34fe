//! `libcls_table_1.so`: tables inside ceph-osd. A separate library, because it contains a query
//! engine. Fragments call methods of WebAssembly classes in `libcls_wasm_1.so`, if the OSD has loaded it.

use benthic_cls::OtherLibrary;
use benthic_core::ClassRegistry;
use benthic_fragment::Table;

static WASM: OtherLibrary = OtherLibrary::new("wasm_1");

benthic_cls::export!("table_1", ClassRegistry::new().with(Table::with_wasm(|call| WASM.call(call))));
