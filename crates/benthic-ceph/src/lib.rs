//! Tools for operators of Ceph clusters.
//!
//! - [`local`] runs a real cluster on this machine, for development and tests.
//! - [`classes`] installs class libraries where OSDs load them, and [`hosts`] on all hosts of a
//!   cluster.
//! - [`placement`] shows which sites hold the primaries of a pool, and moves them to one site.
//! - [`pgs`] reports how many placement groups pools have and should have.
//! - [`releases`] are those with which Benthic was tested.
//! - [`pools`] reports the contents of a pool, and the other users that it serves.
//! - [`health`] reports the state of a cluster, the causes, and the next steps.
//!
//! All modules except [`classes`], which runs the program `ceph`, query clusters through a
//! [`ClusterClient`](cluster_client::ClusterClient), as programs do, so that they do not depend on
//! the Ceph engine. [`local`] also runs Ceph's daemons and the programs that create them. All
//! modules share one model of Ceph's answers, [`cluster_state`].

pub mod classes;
pub mod cluster_client;
pub mod cluster_state;
pub mod health;
pub mod hosts;
pub mod local;
pub mod osds;
pub mod pgs;
pub mod placement;
pub mod pools;
pub mod releases;

pub use benthic_rados::CLASS_LIBRARY;

/// Benthic's class libraries. The OSDs need only the first; the others reduce arrays, and run SQL
/// and WebAssembly.
pub const LIBRARIES: [&str; 4] = [CLASS_LIBRARY, "array_1", "table_1", "wasm_1"];
