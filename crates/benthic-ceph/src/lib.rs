//! For the person who runs Ceph.
//!
//! [`local`] starts a real cluster on this machine, for development and tests. [`classes`] puts libraries of classes
//! where OSDs find them. Both know Ceph by its programs and their documented output only. [`placement`] shows where the
//! primaries of a pool are and brings them to a site, [`pgs`] how many placement groups pools should have, and [`health`]
//! how a cluster is and what to do about it. They ask any cluster through a
//! [`ClusterClient`](cluster_client::ClusterClient), and share one model of its answers, [`cluster_state`]. Programs take the
//! name of the engine from here and do not depend on its crate.

pub mod classes;
pub mod cluster_client;
pub mod cluster_state;
pub mod health;
pub mod local;
pub mod osds;
pub mod pgs;
pub mod placement;

pub use benthic_rados::{CLASS_LIBRARY, RadosStore};
