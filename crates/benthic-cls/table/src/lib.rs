//! `libcls_table_1.so`: tables inside ceph-osd. A separate library, because it contains a query
//! engine.

benthic_cls::export!("table_1", benthic_core::ClassRegistry::new().with(benthic_fragment::Table));
