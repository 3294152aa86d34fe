//! An NBD server, by the specification `doc/proto.md` of NetworkBlockDevice/nbd: fixed newstyle
//! handshake, TLS, structured replies and block status; and by its branch `extension-ext-header`:
//! extended headers.
//!
//! A request's path: [`transmission`] reads it, it waits for its [`throttle`]s, [`command`] checks
//! and runs it on the image in a task of its own, and the connection's writer sends the reply. The
//! request's memory counts against the [`limits`] until the reply is sent. Exports share the memory
//! and the places of requests that run ([`fair`]).

mod bucket;
mod command;
mod export;
mod fair;
mod handshake;
mod limits;
mod metrics;
mod server;
mod stats;
mod throttle;
mod transmission;
pub mod wire;

pub use export::{Export, Exports};
pub use limits::{CONNECTIONS_MAX, MEMORY_BYTES_MAX, PAYLOAD_BYTES_MAX};
pub use metrics::{ExportMetrics, KindMetrics, Metrics};
pub use server::{Address, Encryption, Listener, Options, serve};
pub use stats::BOUNDS_US;
