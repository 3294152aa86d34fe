//! Finds OSDs whose process runs although the monitors count them as down.
//!
//! The monitors do not know whether a silent OSD is dead or hangs. Its process still listens on the
//! OSD's public address, and the kernel accepts connections for it; after the process ended, the
//! host refuses them. Another program may have taken the port meanwhile, so the finding is no alarm
//! of its own; an OSD of this cluster that did so is known and does not count.

use crate::cluster_state::Osd;
use std::collections::HashSet;
use std::net::TcpStream;
use std::time::Duration;
use tokio::task::JoinSet;

const CONNECT_LIMIT: Duration = Duration::from_secs(1);
/// With more OSDs down, the cause is not a hung process.
const OSDS_MAX: usize = 64;

/// The numbers of these OSDs, sorted. Takes about a second if hosts do not answer.
pub async fn hung_osds(osds: &[Osd]) -> Vec<i32> {
    let taken: HashSet<_> = osds.iter().filter(|osd| osd.is_up()).filter_map(Osd::address).collect();
    let down = osds.iter().filter(|osd| !osd.is_up()).filter_map(|osd| Some((osd.id, osd.address()?)));
    let down = down.filter(|(_, address)| !taken.contains(address));
    let mut asked = JoinSet::new();
    for (id, address) in down {
        if asked.len() == OSDS_MAX {
            return Vec::new();
        }
        asked.spawn_blocking(move || {
            TcpStream::connect_timeout(&address, CONNECT_LIMIT).is_ok().then_some(id)
        });
    }
    let mut hung: Vec<i32> = asked.join_all().await.into_iter().flatten().collect();
    hung.sort_unstable();
    hung
}

#[cfg(test)]
#[path = "hung_tests.rs"]
mod tests;
