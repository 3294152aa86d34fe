//! Simulates clusters that do not exist: the placement of their data, the data movement after a
//! change, and the data loss after disk failures.
//!
//! Ceph's own `crushtool` computes the placement on a map that this module writes. All OSDs have
//! the same size, no OSD is reweighted, and the balancer has not run: this is the state of a new
//! cluster.

use super::preview::{Mapping, PROGRAMS, compile, map_inputs};
use crate::local::tools;
use benthic_core::{Action, Error, ErrorKind, Result};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use tempfile::TempDir;

/// Limits of a simulation: above them, the tools take minutes and gigabytes.
const OSDS_MAX: u32 = 20_000;
const PGS_MAX: u32 = 1 << 20;
const REPLICAS_MAX: usize = 10;
/// The used share at which an OSD rejects writes (`mon_osd_full_ratio`).
pub const FULL_RATIO: f64 = 0.95;

/// Levels of the CRUSH tree. A level's position is the number of its type in the map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Osd,
    Host,
    Rack,
    Room,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Osd => "osd",
            Level::Host => "host",
            Level::Rack => "rack",
            Level::Room => "room",
        }
    }
}

/// The shape of a cluster. Racks are spread evenly over rooms, and hosts over racks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    pub rooms: u32,
    /// Racks in all rooms together.
    pub racks: u32,
    /// Hosts in all racks together.
    pub hosts: u32,
    pub osds_per_host: u32,
}

/// The only pool of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Load {
    pub pg_num: u32,
    pub replicas: usize,
    /// The failure domain: no two replicas are in the same bucket of this level.
    pub domain: Level,
    pub osd_bytes: f64,
    /// The used share of all OSDs together.
    pub fill: f64,
    /// Rate at which a disk reads and writes for recovery, both together.
    pub rate_bytes_per_s: f64,
}

/// A change of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds this many hosts, to the racks with the fewest hosts.
    AddHosts(u32),
    /// Loses the first bucket of this level for good: its OSDs are out.
    Lose(Level),
}

/// The distribution of placement group replicas over OSDs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distribution {
    pub mean: f64,
    pub deviation: f64,
    pub least: u32,
    pub most: u32,
    /// The used share of the fullest OSD.
    pub fullest_fill: f64,
    /// The used share of the whole cluster when its fullest OSD is full: the usable capacity.
    pub full_at_fill: f64,
    /// Placement groups for which CRUSH found too few OSDs.
    pub incomplete: usize,
    /// Pairs of a number of replicas and the number of OSDs that have it.
    #[serde(skip)]
    pub osds_by_replicas: Vec<(u32, u32)>,
}

/// The data movement that a change causes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Movement {
    pub osds_changed: u32,
    /// Replicas that move to another OSD.
    pub moved: u64,
    /// The moved share of all replicas.
    pub moved_share: f64,
    /// The smallest share that must move to make all OSDs equally full again.
    pub ideal_share: f64,
    pub moved_bytes: f64,
    /// Bytes that the busiest disk reads and writes for the movement.
    pub busiest_osd_bytes: f64,
    /// Duration of the movement, which the busiest disk determines.
    pub hours: f64,
    pub after: Distribution,
}

/// The loss of data when disks fail together, before any recovery.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// The number of failed disks, chosen at random.
    pub failed_osds: u32,
    /// The probability that a placement group loses all replicas.
    pub chance: f64,
    /// Expected number of placement groups that lose all replicas.
    pub pgs_lost: f64,
}

/// A simulated cluster.
pub struct Simulation {
    shape: Shape,
    load: Load,
    before: Mapping,
    dir: TempDir,
}

impl Simulation {
    /// Computes the placement.
    ///
    /// # Errors
    /// `InvalidArgument` if the shape is impossible, or the pool does not fit on it; `Unavailable`
    /// if Ceph's tools are not installed or fail.
    pub fn new(shape: Shape, load: Load) -> Result<Simulation> {
        check(&shape, &load)?;
        tools::require_helpers(&PROGRAMS[..1], "benthic needs Ceph's own tool to simulate CRUSH")?;
        let dir = TempDir::new().map_err(|error| {
            Error::io(Action::Admin, "cannot create a directory for temporary files", error)
                .with_kind(ErrorKind::Unavailable)
        })?;
        let mut simulation = Simulation { shape, load, before: Mapping::new(), dir };
        simulation.before = simulation.map(&simulation.shape, simulation.shape.hosts, 0..0)?;
        Ok(simulation)
    }

    pub fn distribution(&self) -> Distribution {
        self.spread(&self.before, 0..self.shape.osds())
    }

    /// Simulates a change and returns the data movement.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn change(&self, change: Change) -> Result<Movement> {
        let osds = self.shape.osds();
        let (after, lost, alive) = match change {
            Change::AddHosts(count) => {
                let hosts = self.shape.hosts.saturating_add(count);
                let grown = Shape { hosts, ..self.shape.clone() };
                check(&grown, &self.load)?;
                let after = self.map(&self.shape, hosts, 0..0)?;
                (after, 0..0, 0..grown.osds())
            }
            Change::Lose(level) => {
                let lost = 0..self.shape.osds_of_first(level);
                if lost.end == osds {
                    let message = "the loss would be all of the cluster; name a smaller level";
                    return Err(invalid(message).with("lost", level.name()));
                }
                (self.map(&self.shape, self.shape.hosts, lost.clone())?, lost.clone(), lost.end..osds)
            }
        };
        let (moved, busiest) = moves(&self.before, &after, &lost, alive.end);
        let all = f64::from(self.load.pg_num) * self.load.replicas as f64;
        let changed = if lost.is_empty() { alive.end - osds } else { lost.end };
        let of = if lost.is_empty() { alive.end } else { osds };
        let busiest_osd_bytes = busiest as f64 * self.replica_bytes();
        Ok(Movement {
            osds_changed: changed,
            moved,
            moved_share: moved as f64 / all,
            ideal_share: f64::from(changed) / f64::from(of),
            moved_bytes: moved as f64 * self.replica_bytes(),
            busiest_osd_bytes,
            hours: busiest_osd_bytes / self.load.rate_bytes_per_s / 3_600.0,
            after: self.spread(&after, alive),
        })
    }

    /// The loss of data for 1 to `failed_max` disks that fail together. The probability is exact if
    /// no more disks fail than there are replicas. Beyond that, it assumes that placement groups
    /// fail independently.
    pub fn losses(&self, failed_max: u32) -> Vec<Loss> {
        let sets: BTreeSet<Vec<i32>> = self.before.iter().map(|osds| sort(osds)).collect();
        let mut sizes = sets.iter().map(Vec::len).collect::<Vec<_>>();
        sizes.sort_unstable();
        let osds = self.shape.osds();
        (1..=failed_max.min(osds))
            .map(|failed| {
                let expected: f64 = sizes.iter().map(|size| all_fail(*size, failed, osds)).sum();
                let pgs_lost = self.before.iter().map(|held| all_fail(held.len(), failed, osds)).sum();
                let exact = sizes.first().is_some_and(|least| failed as usize <= *least);
                let chance = if exact { expected.min(1.0) } else { -(-expected).exp_m1() };
                Loss { failed_osds: failed, chance, pgs_lost }
            })
            .collect()
    }

    fn map(&self, shape: &Shape, hosts: u32, out: std::ops::Range<u32>) -> Result<Mapping> {
        let text = map_text(shape, hosts, self.load.domain);
        let compiled = compile(self.dir.path(), &text)?;
        let weights: Vec<(i32, f64)> = out.map(|osd| (osd.cast_signed(), 0.0)).collect();
        map_inputs(&compiled, 0, self.load.replicas, self.load.pg_num, Some(1), &weights)
    }

    fn replica_bytes(&self) -> f64 {
        let used = f64::from(self.shape.osds()) * self.load.osd_bytes * self.load.fill;
        used / (f64::from(self.load.pg_num) * self.load.replicas as f64)
    }

    fn spread(&self, mapping: &Mapping, osds: std::ops::Range<u32>) -> Distribution {
        let mut counts = vec![0_u32; osds.end as usize];
        for osd in mapping.iter().flatten().filter_map(|osd| usize::try_from(*osd).ok()) {
            counts[osd] += 1;
        }
        let counts = &counts[osds.start as usize..];
        let number = counts.len() as f64;
        let mean = counts.iter().map(|count| f64::from(*count)).sum::<f64>() / number;
        let square = |count: &u32| (f64::from(*count) - mean).powi(2);
        let deviation = (counts.iter().map(square).sum::<f64>() / number).sqrt();
        let most = counts.iter().copied().max().unwrap_or(0);
        let mut osds_by_replicas = std::collections::BTreeMap::new();
        for count in counts {
            *osds_by_replicas.entry(*count).or_insert(0_u32) += 1;
        }
        Distribution {
            mean,
            deviation,
            least: counts.iter().copied().min().unwrap_or(0),
            most,
            fullest_fill: f64::from(most) * self.replica_bytes() / self.load.osd_bytes,
            full_at_fill: FULL_RATIO * mean / f64::from(most.max(1)),
            incomplete: mapping.iter().filter(|held| held.len() < self.load.replicas).count(),
            osds_by_replicas: osds_by_replicas.into_iter().collect(),
        }
    }
}

impl Shape {
    pub fn osds(&self) -> u32 {
        self.hosts * self.osds_per_host
    }

    pub fn count(&self, level: Level) -> u32 {
        match level {
            Level::Osd => self.osds(),
            Level::Host => self.hosts,
            Level::Rack => self.racks,
            Level::Room => self.rooms,
        }
    }

    /// The number of OSDs below the first bucket of a level. They are the OSDs with the lowest
    /// numbers.
    fn osds_of_first(&self, level: Level) -> u32 {
        let racks = match level {
            Level::Osd => return 1,
            Level::Host => return self.osds_per_host,
            Level::Rack => 1,
            Level::Room => (0..self.racks).filter(|rack| self.room_of(*rack) == 0).count(),
        };
        let hosts = (0..self.hosts).filter(|host| (self.rack_of(*host) as usize) < racks).count();
        u32::try_from(hosts).unwrap_or(u32::MAX).saturating_mul(self.osds_per_host)
    }

    fn room_of(&self, rack: u32) -> u32 {
        group_of(rack, self.racks, self.rooms)
    }

    /// The rack of a host. Hosts beyond the shape's own go to the racks with the fewest hosts, in
    /// turn.
    fn rack_of(&self, host: u32) -> u32 {
        if host < self.hosts {
            return group_of(host, self.hosts, self.racks);
        }
        let mut sizes = vec![0_u32; self.racks as usize];
        for host in 0..self.hosts {
            sizes[group_of(host, self.hosts, self.racks) as usize] += 1;
        }
        let mut order: Vec<u32> = (0..self.racks).collect();
        order.sort_by_key(|rack| (sizes[*rack as usize], *rack));
        order[((host - self.hosts) % self.racks) as usize]
    }
}

/// The group of an item when neighbouring items form groups whose sizes differ by at most one.
fn group_of(item: u32, items: u32, groups: u32) -> u32 {
    u32::try_from(u64::from(item) * u64::from(groups) / u64::from(items)).unwrap_or(0)
}

/// The probability that all OSDs of a placement group are among `failed` random ones of `osds`.
fn all_fail(replicas: usize, failed: u32, osds: u32) -> f64 {
    if replicas == 0 {
        return 0.0;
    }
    (0..replicas).map(|i| (f64::from(failed) - i as f64).max(0.0) / (f64::from(osds) - i as f64)).product()
}

fn sort(osds: &[i32]) -> Vec<i32> {
    let mut osds = osds.to_vec();
    osds.sort_unstable();
    osds
}

/// The number of replicas that move, and the number that the busiest OSD reads or writes for it. A
/// new replica is copied from the first surviving replica.
fn moves(before: &Mapping, after: &Mapping, lost: &std::ops::Range<u32>, osds: u32) -> (u64, u64) {
    let (mut moved, mut work) = (0, vec![0_u64; osds as usize]);
    let is_left = |osd: &&i32| !u32::try_from(**osd).is_ok_and(|osd| lost.contains(&osd));
    for (old, new) in before.iter().zip(after) {
        let source = old.iter().find(is_left);
        for osd in new.iter().filter(|osd| !old.contains(osd)) {
            moved += 1;
            for osd in [Some(osd), source].into_iter().flatten().filter_map(|osd| usize::try_from(*osd).ok())
            {
                work[osd] += 1;
            }
        }
    }
    (moved, work.into_iter().max().unwrap_or(0))
}

fn check(shape: &Shape, load: &Load) -> Result<()> {
    let Shape { rooms, racks, hosts, osds_per_host } = *shape;
    if rooms == 0 || osds_per_host == 0 || racks < rooms || hosts < racks {
        let message =
            "use at least one room, as many racks as rooms, as many hosts as racks, and an OSD in each host";
        return Err(invalid(message).with("rooms", rooms).with("racks", racks).with("hosts", hosts));
    }
    if hosts.checked_mul(osds_per_host).is_none_or(|osds| osds > OSDS_MAX) {
        return Err(invalid(format!("the simulation is limited to {OSDS_MAX} OSDs; use fewer"))
            .with("hosts", hosts)
            .with("osds_per_host", osds_per_host));
    }
    if !(1..=PGS_MAX).contains(&load.pg_num) || !(1..=REPLICAS_MAX).contains(&load.replicas) {
        let message = format!("use 1 to {PGS_MAX} placement groups with 1 to {REPLICAS_MAX} replicas each");
        return Err(invalid(message).with("pg_num", load.pg_num).with("replicas", load.replicas));
    }
    if load.domain == Level::Osd || (shape.count(load.domain) as usize) < load.replicas {
        let (count, name) = (shape.count(load.domain), load.domain.name());
        let message =
            format!("{} replicas cannot all be in different {name}s; use another --domain", load.replicas);
        return Err(invalid(message).with(name, count));
    }
    if !(load.osd_bytes >= 1.0 && load.rate_bytes_per_s >= 1.0 && (0.0..=1.0).contains(&load.fill)) {
        return Err(invalid("an OSD needs a size and a rate of at least 1, and a fill from 0 to 1"));
    }
    Ok(())
}

fn invalid(message: impl Into<String>) -> Error {
    Error::invalid_argument(message.into())
}

/// The map in `crushtool`'s text form, with the tunables of a new cluster ("jewel"). A bucket keeps
/// its number when hosts are added, because CRUSH hashes that number.
fn map_text(shape: &Shape, hosts: u32, domain: Level) -> String {
    let mut text = String::from(
        "tunable choose_local_tries 0\ntunable choose_local_fallback_tries 0\ntunable choose_total_tries 50\n\
         tunable chooseleaf_descend_once 1\ntunable chooseleaf_vary_r 1\ntunable chooseleaf_stable 1\n\
         tunable straw_calc_version 1\ntunable allowed_bucket_algs 54\n",
    );
    let osds = shape.osds_per_host;
    for osd in 0..hosts * osds {
        let _ = writeln!(text, "device {osd} osd.{osd}");
    }
    text.push_str("type 0 osd\ntype 1 host\ntype 2 rack\ntype 3 room\ntype 4 root\n");
    let mut bucket = |kind: &str, name: &str, id: u32, items: &[(String, u32)]| {
        let _ = writeln!(text, "{kind} {name} {{\n\tid -{id}\n\talg straw2\n\thash 0");
        for (item, weight) in items {
            let _ = writeln!(text, "\titem {item} weight {weight}.0");
        }
        text.push_str("}\n");
    };
    let rack_of: Vec<u32> = (0..hosts).map(|host| shape.rack_of(host)).collect();
    let (first_rack, first_host) = (2 + shape.rooms, 2 + shape.rooms + shape.racks);
    for host in 0..hosts {
        let items: Vec<_> = (host * osds..(host + 1) * osds).map(|osd| (format!("osd.{osd}"), 1)).collect();
        bucket("host", &format!("host{host}"), first_host + host, &items);
    }
    let hosts_in = |rack: u32| (0..hosts).filter(|host| rack_of[*host as usize] == rack).collect();
    let in_rack: Vec<Vec<u32>> = (0..shape.racks).map(hosts_in).collect();
    let rack_weight = |rack: u32| in_rack[rack as usize].len() as u32 * osds;
    for rack in 0..shape.racks {
        let items: Vec<_> = in_rack[rack as usize].iter().map(|host| (format!("host{host}"), osds)).collect();
        bucket("rack", &format!("rack{rack}"), first_rack + rack, &items);
    }
    let racks_in = |room: u32| (0..shape.racks).filter(move |rack| shape.room_of(*rack) == room);
    for room in 0..shape.rooms {
        let items: Vec<_> = racks_in(room).map(|rack| (format!("rack{rack}"), rack_weight(rack))).collect();
        bucket("room", &format!("room{room}"), 2 + room, &items);
    }
    let rooms = (0..shape.rooms).map(|room| (format!("room{room}"), racks_in(room).map(rack_weight).sum()));
    bucket("root", "default", 1, &rooms.collect::<Vec<_>>());
    let _ = writeln!(
        text,
        "rule simulated {{\n\tid 0\n\ttype replicated\n\tmin_size 1\n\tmax_size 10\n\tstep take default\n\t\
         step chooseleaf firstn 0 type {}\n\tstep emit\n}}",
        domain.name()
    );
    text
}

#[cfg(test)]
#[path = "simulate_tests.rs"]
mod tests;
