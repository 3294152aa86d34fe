//! `libcls_array_1.so`: arrays inside ceph-osd. A separate library, because it contains
//! decompressors written in C.

use benthic_core::ClassRegistry;

benthic_cls::export!("array_1", ClassRegistry::new().with(benthic_array::ArrayClass));
