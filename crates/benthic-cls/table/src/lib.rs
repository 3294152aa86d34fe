//! `libcls_table_1.so`: tables inside ceph-osd. A separate library, because it contains a query
//! engine. Fragments call methods of WebAssembly classes in `libcls_wasm_1.so`, if the OSD has
//! loaded it.
//!
//! `BENTHIC_TABLE_BLOCKED` in the OSD's environment contains names of functions that fragments must
//! not call, such as `approx_median,lower`. If it contains a name that fragments do not know, no
//! fragment runs.

use benthic_cls::OtherLibrary;
use benthic_core::ClassRegistry;
use benthic_fragment::Table;
use benthic_fragment::fragment::Blocked;

static WASM: OtherLibrary = OtherLibrary::new("wasm_1");

fn classes() -> ClassRegistry {
    let table = Table::with_wasm(|call| WASM.call(call));
    let blocked = std::env::var_os("BENTHIC_TABLE_BLOCKED").unwrap_or_default();
    ClassRegistry::new().with(table.blocking(Blocked::parse(&blocked.to_string_lossy())))
}

benthic_cls::export!("table_1", classes());
