//! Store URIs, as people type them.

use benthic_core::{Error, Result};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The location of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreUri {
    /// `file:DIR`: the embedded engine in a directory.
    File(PathBuf),
    /// `mem:`: the memory engine, whose data end with the process.
    Mem,
    /// `ceph:` or `ceph:?conf=FILE&id=client.x&read=near`: a Ceph cluster.
    Ceph {
        /// Path of the configuration file; `/etc/ceph/ceph.conf` if absent.
        conf: Option<PathBuf>,
        /// The Ceph user, such as `client.admin`.
        id: Option<String>,
        /// Read from the nearest replica, by the configuration's `crush_location`, instead of the
        /// primary.
        read_near: bool,
    },
}

impl StoreUri {
    pub fn is_cluster(&self) -> bool {
        matches!(self, StoreUri::Ceph { .. })
    }
}

impl FromStr for StoreUri {
    type Err = Error;

    fn from_str(text: &str) -> Result<StoreUri> {
        let invalid = |message: &str| Error::invalid_argument(message).with("store", text);
        match text.split_once(':') {
            Some(("file", "")) => Err(invalid("file: needs a directory, such as file:./benthic-data")),
            Some(("file", dir)) if dir.contains('\0') => {
                Err(invalid("the name of a directory cannot contain NUL"))
            }
            Some(("file", dir)) => Ok(StoreUri::File(PathBuf::from(dir))),
            Some(("mem", "")) => Ok(StoreUri::Mem),
            Some(("ceph", "")) => Ok(StoreUri::Ceph { conf: None, id: None, read_near: false }),
            Some(("ceph", query)) => {
                let query = query.strip_prefix('?').ok_or_else(|| {
                    invalid("the options of ceph: follow a '?', as in ceph:?conf=FILE&id=client.x")
                })?;
                let (mut conf, mut id, mut read_near) = (None, None, false);
                for pair in query.split('&') {
                    match pair.split_once('=') {
                        Some(("conf", value)) if !value.is_empty() => conf = Some(PathBuf::from(value)),
                        Some(("id", value)) if !value.is_empty() => id = Some(value.to_owned()),
                        Some(("read", "near")) => read_near = true,
                        _ => {
                            return Err(invalid(
                                "the options of ceph: are conf=FILE, id=client.x and read=near",
                            ));
                        }
                    }
                }
                Ok(StoreUri::Ceph { conf, id, read_near })
            }
            None if !text.is_empty() => {
                Err(invalid(&format!("a store is file:DIR, ceph: or mem:; did you mean file:{text}?")))
            }
            _ => Err(invalid("a store is file:DIR, ceph: or mem:")),
        }
    }
}

impl fmt::Display for StoreUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreUri::File(dir) => write!(f, "file:{}", dir.display()),
            StoreUri::Mem => f.write_str("mem:"),
            StoreUri::Ceph { conf, id, read_near } => {
                let conf = conf.as_ref().map(|conf| format!("conf={}", conf.display()));
                let id = id.as_ref().map(|id| format!("id={id}"));
                let near = read_near.then(|| "read=near".to_owned());
                let query: Vec<String> = conf.into_iter().chain(id).chain(near).collect();
                write!(f, "ceph:{}{}", if query.is_empty() { "" } else { "?" }, query.join("&"))
            }
        }
    }
}

#[cfg(test)]
#[path = "uri_tests.rs"]
mod tests;
