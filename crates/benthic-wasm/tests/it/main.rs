//! The class `wasm` on the engines of `benthic-embedded`, with the interpreter.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod behaviour;
mod conformance;
mod corpus;
mod deploy;
mod modules;
mod native;
mod objects;
mod suite;
