//! `libcls_benthic_1.so`: the built-in classes inside ceph-osd.

benthic_cls::export!("benthic_1", benthic_classes::registry());
