//! For the person who runs Ceph.
//!
//! [`local`] starts a real cluster on this machine, for development and tests. It knows Ceph by its programs and
//! their documented output only; the client side is `benthic-rados`.

pub mod local;
