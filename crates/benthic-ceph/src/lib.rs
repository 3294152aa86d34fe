//! For the person who runs Ceph.
//!
//! [`local`] starts a real cluster on this machine, for development and tests. [`classes`] puts libraries of classes
//! where OSDs find them. Both know Ceph by its programs and their documented output only; the client side is `benthic-rados`.

pub mod classes;
pub mod local;
