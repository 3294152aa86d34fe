//! Emulates several sites on one machine: each site is a network namespace with an address of its
//! own. [`wan`](super::wan) connects them.

use super::daemon::Daemon;
use super::tools::{self, QUESTION_LIMIT};
use benthic_core::{Action, Error, ErrorKind, Result};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// Limit of sites in a local cluster.
pub const SITES_MAX: usize = 16;
/// Limit of the round-trip time between two sites.
pub const RTT_MS_MAX: u32 = 1_000;
/// Limit of the configurable rate of a link.
pub const MBIT_PER_S_MAX: u32 = 10_000;
/// The default round-trip time.
pub const RTT_MS_DEFAULT: u32 = 10;

const NAME_BYTES_MAX: usize = 16;
/// From this many sites on, each replica is at a different site.
const SITES_FOR_REPLICAS: usize = 3;
/// The number of blocks of 256 addresses in 198.18.0.0/15, which is reserved for network tests.
const BLOCKS: u16 = 512;

/// The sites of a cluster, as its marker keeps them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Sites {
    /// Site names. The monitor and the manager are at the first site, the OSDs at each site in
    /// turn.
    pub names: Vec<String>,
    /// Round-trip time between two sites, or between a site and the rest of this machine.
    pub rtt_ms: u32,
    /// Limit of the rate at which each site, and the rest of this machine, receives; 0 for no
    /// limit.
    #[serde(default)]
    pub mbit_per_s: u32,
    /// Sites that are cut off.
    pub cut: Vec<String>,
    /// The block of 256 addresses that the sites use.
    pub block: u16,
}

impl Sites {
    /// New sites, with addresses that no interface of this machine has.
    ///
    /// # Errors
    /// `Busy` if all addresses are in use.
    pub fn new(names: &[String], rtt_ms: u32, mbit_per_s: u32, fsid: &str) -> Result<Sites> {
        // The search starts at a different block for each cluster: a stopped cluster has no
        // interface, but needs its addresses when it starts again.
        let start = fsid.bytes().fold(0_u16, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
        let used = used_addresses()?;
        let block = (0..BLOCKS)
            .map(|step| start.wrapping_add(step) % BLOCKS)
            .find(|block| !used.iter().any(|used| used.is_in(*block)))
            .ok_or_else(|| Error::new(ErrorKind::Busy, "all addresses of 198.18.0.0/15 are in use here"))?;
        Ok(Sites { names: names.to_vec(), rtt_ms, mbit_per_s, cut: Vec::new(), block })
    }

    /// Fails if an interface of this machine that is not the cluster's has the cluster's addresses.
    pub fn check_block(&self) -> Result<()> {
        if used_addresses()?.iter().any(|used| used.is_in(self.block)) {
            let message =
                "another interface of this machine uses the cluster's addresses; remove that interface first";
            return Err(Error::new(ErrorKind::Busy, message)
                .with("addresses", format_args!("{}/24", address(self.block, 0))));
        }
        Ok(())
    }

    /// The index of a site.
    ///
    /// # Errors
    /// `NotFound` if there is no site with this name.
    pub fn find(&self, name: &str) -> Result<usize> {
        self.names.iter().position(|site| site == name).ok_or_else(|| {
            let message = format!("no such site; the cluster's sites are {}", self.names.join(", "));
            Error::new(ErrorKind::NotFound, message).with("site", name)
        })
    }

    /// The site of a daemon; `None` for the links.
    pub fn site_of(&self, daemon: Daemon) -> Option<usize> {
        match daemon {
            Daemon::Wan => None,
            Daemon::Mon | Daemon::Mgr => Some(0),
            Daemon::Osd(number) => Some(number as usize % self.names.len()),
        }
    }

    /// The address of a site, or of the rest of the machine.
    pub fn address(&self, site: Option<usize>) -> Ipv4Addr {
        address(self.block, site.map_or(1, |site| site as u8 + 2))
    }

    pub fn namespace(&self, site: usize, fsid: &str) -> Namespace {
        Namespace { name: format!("benthic-{}-{}", short_id(fsid), self.names[site]) }
    }

    /// The value of `crush_location` at a site, for OSDs and clients. Site names contain no `_`, so
    /// a site never has the name of a host.
    pub fn crush_location(&self, site: usize) -> String {
        let name = &self.names[site];
        format!("root=default datacenter={name} host={name}_1")
    }

    pub fn spread_replicas(&self) -> bool {
        self.names.len() >= SITES_FOR_REPLICAS
    }
}

/// A prefix of the cluster's identity that distinguishes its namespaces and devices from those of
/// other clusters. It is short because a device name has at most 15 characters.
pub fn short_id(fsid: &str) -> &str {
    fsid.get(..8).unwrap_or(fsid)
}

/// Fails if the names are not valid for sites.
pub fn check_names(names: &[String]) -> Result<()> {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    let wrong = |name: &&String| {
        name.len() > NAME_BYTES_MAX
            || !name.bytes().all(plain)
            || !name.starts_with(|c: char| c.is_ascii_lowercase())
            || *name == "default"
    };
    let twice = |at: &usize| names[..*at].contains(&names[*at]);
    let invalid =
        |message, name: &String| Err(Error::new(ErrorKind::InvalidArgument, message).with("site", name));
    if names.is_empty() || names.len() > SITES_MAX {
        return Err(
            Error::new(ErrorKind::InvalidArgument, "a cluster has 1 to 16 sites").with("sites", names.len())
        );
    }
    if let Some(name) = names.iter().find(wrong) {
        return invalid(
            "a site's name has at most 16 characters of a-z, 0-9 and -, begins with a letter, and is not `default`",
            name,
        );
    }
    match (0..names.len()).find(twice) {
        Some(at) => invalid("two sites have the same name", &names[at]),
        None => Ok(()),
    }
}

fn address(block: u16, last: u8) -> Ipv4Addr {
    let [high, low] = block.to_be_bytes();
    Ipv4Addr::new(198, 18 + high, low, last)
}

/// An address of an interface, with the prefix length of its network.
struct UsedAddress {
    address: Ipv4Addr,
    prefix_bits: u32,
}

impl UsedAddress {
    fn is_in(&self, block: u16) -> bool {
        let host_bits = 32 - self.prefix_bits.min(24);
        let differ = u64::from(self.address.to_bits() ^ address(block, 0).to_bits());
        differ >> host_bits == 0
    }
}

fn used_addresses() -> Result<Vec<UsedAddress>> {
    let mut command = tools::bare("ip");
    let json = tools::run(command.args(["-json", "-4", "address", "show"]), QUESTION_LIMIT)?;
    let interfaces: Vec<Value> = serde_json::from_str(&json).map_err(|error| {
        Error::new(ErrorKind::Internal, "the output of `ip` is not JSON").with_source(error)
    })?;
    let addresses =
        interfaces.iter().flat_map(|interface| interface["addr_info"].as_array().into_iter().flatten());
    let used = |info: &Value| {
        let address = info["local"].as_str()?.parse().ok()?;
        Some(UsedAddress { address, prefix_bits: info["prefixlen"].as_u64()?.try_into().ok()? })
    };
    Ok(addresses.filter_map(used).collect())
}

/// Fails if this machine or this user cannot create sites.
pub fn require() -> Result<()> {
    let unavailable = |message: &str| Error::new(ErrorKind::Unavailable, message);
    if !rustix::process::geteuid().is_root() {
        let message = "sites are network namespaces, which only root can create; run the command with sudo";
        return Err(Error::new(ErrorKind::PermissionDenied, message));
    }
    File::open("/proc/self/ns/net")
        .map_err(|error| unavailable("the kernel has no network namespaces").with_source(error))?;
    File::options().read(true).write(true).open("/dev/net/tun").map(drop).map_err(|error| {
        unavailable("the kernel's TUN devices cannot be used; `modprobe tun` loads them").with_source(error)
    })
}

/// The network of a site.
#[derive(Clone, Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Moves this thread, and all processes that it will start, to the site.
    ///
    /// # Errors
    /// `Unavailable` if the site has no network because the cluster is down; `PermissionDenied`
    /// without root.
    pub fn enter(&self) -> Result<()> {
        let network = Some(LinkNameSpaceType::Network);
        let entered =
            File::open(self.path()).and_then(|file| Ok(move_into_link_name_space(file.as_fd(), network)?));
        entered.map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::PermissionDenied => ErrorKind::PermissionDenied,
                _ => ErrorKind::Unavailable,
            };
            Error::io(Action::Admin, "cannot enter the site; `benthic cluster up` creates its network", error)
                .with_kind(kind)
                .with("namespace", self)
        })
    }

    /// Runs a function at the site, on a separate thread.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        thread::scope(|scope| {
            let there = scope.spawn(|| self.enter().and_then(|()| work()));
            there.join().unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a thread panicked")))
        })
    }

    /// Creates the namespace if it does not exist. The site's address is on its loopback device, so
    /// that daemons at the same site stay connected when all links are down.
    pub fn make(&self, address: Ipv4Addr) -> Result<()> {
        if self.run(|| Ok(())).is_err() {
            // An interrupted command leaves a file that is not a namespace.
            self.remove()?;
            ip(&["netns", "add", &self.name])?;
        }
        ip(&["-netns", &self.name, "link", "set", "lo", "up"])?;
        ip(&["-netns", &self.name, "address", "replace", &format!("{address}/32"), "dev", "lo"])
    }

    /// Removes the namespace if it exists. Processes in it continue without a network.
    pub fn remove(&self) -> Result<()> {
        if self.path().exists() { ip(&["netns", "delete", &self.name]) } else { Ok(()) }
    }

    fn path(&self) -> PathBuf {
        PathBuf::from("/run/netns").join(&self.name)
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Runs a program to its end, at a site if there is one; see [`tools::run_with`].
pub fn run_at(
    site: Option<&Namespace>,
    command: &mut Command,
    input: Option<&str>,
    limit: Duration,
) -> Result<String> {
    tools::run_with(command, input, limit, |command| match site {
        None => tools::spawn(command),
        Some(site) => site.run(|| tools::spawn(command)),
    })
}

fn ip(args: &[&str]) -> Result<()> {
    tools::run(tools::bare("ip").args(args), QUESTION_LIMIT).map(drop)
}

#[cfg(test)]
mod tests {
    use super::{Sites, UsedAddress, address, check_names};
    use crate::local::Daemon;

    fn check(names: &[&str]) -> bool {
        check_names(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).is_ok()
    }

    #[test]
    fn site_names_are_short_plain_and_distinct() {
        assert!(check(&["um", "msu", "wsu"]) && check(&["far-away-2"]) && check(&["a234567890123456"]));
        for wrong in ["", "a2345678901234567", "Um", "2um", "-um", "u_m", "u m", "ü", "default", "u/m"] {
            assert!(!check(&[wrong]), "{wrong:?}");
        }
        assert!(!check(&[]) && !check(&["um", "msu", "um"]));
        let many: Vec<String> = (0..17).map(|site| format!("s{site}")).collect();
        assert!(check_names(&many[..16]).is_ok() && check_names(&many).is_err());
    }

    #[test]
    fn daemons_and_addresses_are_spread() {
        let names = ["um", "msu", "wsu"].map(str::to_owned).to_vec();
        let sites = Sites { names, rtt_ms: 10, mbit_per_s: 0, cut: Vec::new(), block: 300 };
        let at = |number| sites.site_of(Daemon::Osd(number));
        assert_eq!([at(0), at(1), at(2), at(3)], [Some(0), Some(1), Some(2), Some(0)]);
        assert_eq!((sites.site_of(Daemon::Mon), sites.site_of(Daemon::Wan)), (Some(0), None));
        let addresses = [None, Some(0), Some(15)].map(|site| sites.address(site).to_string());
        assert_eq!(addresses, ["198.19.44.1", "198.19.44.2", "198.19.44.17"]);
    }

    #[test]
    fn a_used_address_occupies_its_block() {
        let used = |last, prefix_bits| UsedAddress { address: address(7, last), prefix_bits };
        assert!(used(0, 24).is_in(7) && used(200, 32).is_in(7));
        assert!(!used(0, 24).is_in(8) && !used(0, 24).is_in(6));
        assert!(used(0, 15).is_in(511) && used(0, 0).is_in(0) && !used(0, 16).is_in(511));
    }
}
