//! Tests of both engines through their public interface.

mod bad_input;
mod conformance;
mod damage;
mod model;
mod recovery;
mod sharing;
mod space;
mod support;
