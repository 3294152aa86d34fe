//! Makes [classes](benthic_core::Class) a library that ceph-osd loads.
//!
//! A library is a package of its own with `crate-type = ["cdylib"]`, `[lib] name = "cls_NAME"`, the dependencies
//! `benthic-cls` and `benthic-core`, and one use of [`export!`].
//!
//! ceph-osd opens `libcls_NAME.so` when NAME is first called, and those it finds when it starts. The methods are called
//! `CLASS.METHOD`; two that every library has are [`DESCRIBE`](benthic_core::DESCRIBE) and
//! [`CALLS`](benthic_core::CALLS). A running OSD never looks at a changed file again, so NAME ends in a version
//! (`mydigest_1`), and an upgrade is a new name beside the old one.
//!
//! The way of a call: ceph-osd → a trampoline in `shim.cc` → [`library`] → [`benthic_core::call_method`], which keeps a
//! method's promises on every engine → the method → `access`, the object as the OSD has it → `shim.cc` → ceph-osd.
//!
//! What a caller gets is 0 or one errno of the [error table](benthic_core::error::ERROR_TABLE), never EAGAIN or
//! EINPROGRESS, at which an OSD sends no reply. Native code is trusted code: an endless loop that never calls its
//! context, a stack overflow, or memory that cannot be allocated takes the OSD down.

mod access;
mod counts;
mod ffi;
pub mod library;

pub use benthic_class_names::is_library_name;

/// Exports classes as the library `libcls_NAME.so`: takes NAME as a literal, and a
/// [`ClassRegistry`](benthic_core::ClassRegistry). Once in a package.
///
/// A name that ceph-osd would not load, or that one of Ceph's own classes has, does not compile. Where Ceph's headers
/// are missing, nothing is exported. A package that forbids `unsafe_code` has to deny it instead: the exported function
/// has a fixed name, which Rust counts as unsafe.
///
/// ```no_run
/// # use benthic_core::{Class, ClassRegistry, Method};
/// # struct MyDigest;
/// # impl Class for MyDigest {
/// #     fn name(&self) -> &'static str { "mydigest" }
/// #     fn version(&self) -> u32 { 1 }
/// #     fn summary(&self) -> &'static str { "" }
/// #     fn methods(&self) -> &'static [Method] { &[] }
/// # }
/// benthic_cls::export!("mydigest_1", ClassRegistry::new().with(MyDigest));
/// ```
///
/// ```compile_fail,E0080
/// benthic_cls::export!("lock", benthic_core::ClassRegistry::new());
/// ```
#[cfg(ceph_headers)]
#[macro_export]
macro_rules! export {
    ($name:literal, $classes:expr) => {
        const _: () = assert!($crate::is_library_name($name), "no name for a library of classes");

        /// What ceph-osd calls once, when it has opened the library.
        #[allow(unsafe_code, reason = "ceph-osd looks for this name")]
        #[unsafe(no_mangle)]
        pub extern "C" fn __cls_init() {
            $crate::library::start($name, || $classes);
        }
    };
}

#[cfg(not(ceph_headers))]
#[allow(missing_docs, reason = "documented above")]
#[macro_export]
macro_rules! export {
    ($name:literal, $classes:expr) => {
        const _: () = assert!($crate::is_library_name($name), "no name for a library of classes");
        const _: fn() -> ::benthic_core::ClassRegistry = || $classes;
    };
}
