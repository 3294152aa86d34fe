//! Runs a real Ceph cluster on this machine: plain processes in one directory, on the loopback
//! interface or at several sites with a delay between them.
//!
//! Such a cluster is for development and tests. It has one monitor, no protection against the loss
//! of the machine, and a disk that it shares with everything else. The daemons outlive the process
//! that started them.
//!
//! Every wait has a limit, and so has the run time of each of Ceph's programs.

mod cluster;
mod create;
mod daemon;
mod hung;
mod layout;
mod links;
mod sites;
mod status;
pub(crate) mod tools;
mod up;
mod wait;
pub mod wan;

pub use cluster::{Cluster, OSDS_DEFAULT, OSDS_MAX, Watch};
pub use daemon::Daemon;
pub use sites::{MBIT_PER_S_MAX, RTT_MS_DEFAULT, RTT_MS_MAX, SITES_MAX};
pub use status::{DaemonStatus, PoolStatus, SiteStatus, Status};
pub use up::{Plan, UpOutcome};
