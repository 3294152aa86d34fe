//! Installing a library. What libraries do inside an OSD is tested where one is built: `library/tests/it/`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod install;
