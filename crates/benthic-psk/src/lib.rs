//! The server's side of TLS with keys that both sides share (RFC 8446, external PSK).
//!
//! rustls, which serves certificates, has no such keys. So this crate uses OpenSSL, opened at run
//! time: a program needs it only if somebody serves with keys. It allows TLS 1.3 alone, where the
//! Diffie-Hellman exchange stays, so that a key that becomes known later does not reveal earlier
//! data. There are no tickets: each connection proves the key.

#[allow(unsafe_code, reason = "calls into OpenSSL; nothing outside this file is unsafe")]
mod ffi;
mod keys;
mod stream;

pub use stream::{PskAcceptor, PskStream};
