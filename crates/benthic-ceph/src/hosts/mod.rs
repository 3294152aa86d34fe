//! Installs a class library on the hosts of a cluster over ssh, and undoes that.
//!
//! OSDs open libraries in a directory of their own host, and Ceph distributes no files. So the
//! library must be copied to every host. The system's `ssh` program connects, because it knows the
//! administrator's keys, agents and jump hosts; an ssh library would know none of them.
//!
//! [`inventory`] reads from the cluster which OSDs run on which host, and from which directories
//! they load libraries. [`directory`] runs a small script on a host, which inspects or changes one
//! directory. Everything that the script prints and every name in the cluster's maps may be
//! hostile; nothing of it becomes part of a command. [`verify`] asks the OSDs of a host whether
//! they have loaded the library.

pub mod directory;
pub mod inventory;
pub mod ssh;
pub mod verify;
