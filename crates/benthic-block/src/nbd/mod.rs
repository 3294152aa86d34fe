//! An NBD server, by the specification `doc/proto.md` of NetworkBlockDevice/nbd: fixed newstyle
//! handshake, structured replies and block status. TLS and extended headers are absent.
//!
//! A request's path: [`transmission`] reads it, [`command`] checks and runs it on the image in a
//! task of its own, and the connection's writer sends the reply. The request's memory counts
//! against the [`limits`] until the reply is sent.

mod command;
mod handshake;
mod limits;
mod server;
mod transmission;
pub mod wire;

pub use limits::{CONNECTIONS_MAX, MEMORY_BYTES_MAX, PAYLOAD_BYTES_MAX};
pub use server::{Address, Export, Listener, serve};
