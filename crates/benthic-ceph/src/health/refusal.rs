//! Finds out whether all OSDs refuse this client.
//!
//! An OSD of Ceph 18 or later accepts no connection of a client whose key has no osd caps. librados
//! then connects again forever and reports nothing, so the OSD looks dead. But every daemon of Ceph
//! sends a banner when it accepts a TCP connection, before it knows the client
//! ([msgr2](https://docs.ceph.com/en/latest/dev/msgr2/)). A dead or stopped OSD sends none.
//!
//! Banners prove nothing: an OSD that hangs only in the threads that serve requests sends one, and
//! another daemon can have the port of a dead OSD. So they only give the probable reason, if no OSD
//! answers and none has answered this process before, and silent OSDs stay silent in the verdict.
//! Nothing better is left: librados does not report the refusal, and a client may read its own caps
//! only as administrator.

use super::snapshot::{SilentOsd, Snapshot};
use crate::cluster_state::{Osd, Pg};
use crate::releases;
use futures::{StreamExt, future, stream};
use std::collections::HashSet;
use std::io::{Read, Result};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use tokio::task::spawn_blocking;

/// Time limit of connecting, and of the banner.
const LIMIT: Duration = Duration::from_secs(2);
const CONNECTIONS_AT_ONCE: usize = 64;
/// The banners of msgr2 and of its predecessor begin with it.
const BANNER: [u8; 6] = *b"ceph v";
/// OSDs of this release answer such a client's requests with an error. 17 was not tested.
const LAST_TO_ANSWER: u32 = 16;

/// Whether these OSDs, none of which answered a request, run and refuse this client: those that are
/// up send a banner, their releases refuse clients without osd caps, and requests do not wait for
/// another reason. If OSDs send no banner, this takes up to 4 s.
pub async fn refuse_this_client(silent: &[SilentOsd], snapshot: &Snapshot) -> bool {
    let is_inactive = |pg: &&Pg| pg.state.split('+').all(|word| word != "active");
    let inactive = snapshot.pgs.iter().flatten().filter(is_inactive);
    let inactive: HashSet<&str> = inactive.map(|pg| pg.pgid.as_str()).collect();
    let silent = silent.iter().filter(|silent| !inactive.contains(silent.pg.as_str()));
    let silent: HashSet<i64> = silent.map(|silent| silent.osd).collect();
    let osds = snapshot.map.iter().flat_map(|map| &map.osds);
    let up = osds.filter(|osd| osd.is_up() && silent.contains(&i64::from(osd.id)));
    let Some(addresses) = up.map(Osd::address).collect::<Option<Vec<SocketAddr>>>() else { return false };
    if addresses.is_empty() || !may_refuse(snapshot) {
        return false;
    }
    let asked =
        addresses.into_iter().map(|address| spawn_blocking(move || sends_banner(address).unwrap_or(false)));
    let sent = stream::iter(asked).buffer_unordered(CONNECTIONS_AT_ONCE);
    sent.all(|sent| future::ready(sent.unwrap_or(false))).await
}

fn may_refuse(snapshot: &Snapshot) -> bool {
    // The flags `pause`, `pauserd` and `pausewr` stop all clients.
    if snapshot.map.iter().flat_map(|map| &map.flags_set).any(|flag| flag.starts_with("pause")) {
        return false;
    }
    let versions = snapshot.versions.as_ref().and_then(|versions| versions.get("osd"));
    let refuses = |version: &String| releases::parse(version).is_none_or(|release| release > LAST_TO_ANSWER);
    versions.is_some_and(|versions| versions.keys().all(refuses))
}

fn sends_banner(address: SocketAddr) -> Result<bool> {
    let mut connection = TcpStream::connect_timeout(&address, LIMIT)?;
    connection.set_read_timeout(Some(LIMIT))?;
    let mut banner = [0; BANNER.len()];
    connection.read_exact(&mut banner)?;
    Ok(banner == BANNER)
}

#[cfg(test)]
#[path = "refusal_tests.rs"]
mod tests;
