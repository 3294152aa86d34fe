//! `libcls_table_1.so`: tables inside ceph-osd. A library of its own, because it carries a query engine.

benthic_cls::export!("table_1", benthic_core::ClassRegistry::new().with(benthic_fragment::Table));
