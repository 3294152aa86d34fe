//! The class `wasm` on the memory engine, with the interpreter.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behaviour;
mod deploy;
mod modules;
mod suite;
