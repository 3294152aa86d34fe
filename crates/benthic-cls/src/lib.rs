//! Turns [classes](benthic_core::Class) into a library that ceph-osd loads.
//!
//! A library is a separate package with `crate-type = ["cdylib"]`, `[lib] name = "cls_NAME"`, the
//! dependencies `benthic-cls` and `benthic-core`, and one use of [`export!`].
//!
//! ceph-osd opens `libcls_NAME.so` on the first call of NAME, and at its start the libraries that
//! it finds. The methods have the names `CLASS.METHOD`; every library also has the methods
//! [`DESCRIBE`](benthic_core::DESCRIBE), [`CALLS`](benthic_core::CALLS) and
//! [`FAILURES`](benthic_core::FAILURES). A running OSD never reloads a changed file. So NAME ends
//! in a version (`mydigest_1`), and an upgrade installs a new name beside the old one.
//!
//! The path of a call: ceph-osd → a trampoline in `shim.cc` → [`library`] →
//! [`benthic_core::call_method`], which enforces the same rules for methods on every engine → the
//! method → `access`, the object in the OSD → `shim.cc` → ceph-osd.
//!
//! A caller gets 0 or one errno of the [error table](benthic_core::error::ERROR_TABLE), never
//! EAGAIN or EINPROGRESS: for those an OSD sends no reply. Beside the errno it gets a
//! [`FailureReport`](benthic_core::FailureReport) with the error's text. Native code is trusted: an
//! endless loop that never calls its context, a stack overflow or a failed memory allocation takes
//! the OSD down.

mod access;
mod counts;
mod failures;
mod ffi;
pub mod json;
pub mod library;
mod messages;
mod osd_id;
mod other;

pub use benthic_class_names::is_library_name;
pub use other::{OtherLibrary, library_path};
/// The crates with which a class of your own reads and writes JSON; see [`json`].
pub use {serde, serde_json};

/// Exports classes as the library `libcls_NAME.so`. Takes NAME as a literal and a
/// [`ClassRegistry`](benthic_core::ClassRegistry). Use it once per package.
///
/// A name that ceph-osd would not load, or that belongs to one of Ceph's own classes, does not
/// compile. Without Ceph's headers the macro exports nothing. A package that forbids `unsafe_code`
/// must deny it instead: the exported function has a fixed name, which Rust counts as unsafe.
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
        const _: () = assert!($crate::is_library_name($name), "not a valid name for a class library");

        /// ceph-osd calls this once, after it has opened the library.
        #[allow(unsafe_code, reason = "ceph-osd looks for this name")]
        #[unsafe(no_mangle)]
        pub extern "C" fn __cls_init() {
            $crate::library::start($name, || $classes);
        }

        /// Other libraries of the OSD call this; see `other.rs`.
        #[allow(unsafe_code, reason = "other libraries look for this name")]
        #[unsafe(no_mangle)]
        pub extern "C" fn benthic_cls_function_1(call: &$crate::library::RawFunctionCall) -> i32 {
            $crate::library::function(call)
        }
    };
}

#[cfg(not(ceph_headers))]
#[macro_export]
macro_rules! export {
    ($name:literal, $classes:expr) => {
        const _: () = assert!($crate::is_library_name($name), "not a valid name for a class library");
        const _: fn() -> ::benthic_core::ClassRegistry = || $classes;
    };
}
