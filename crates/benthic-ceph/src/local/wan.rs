//! The links between the sites of a cluster. This program forwards every packet from one site to
//! another, after half a round-trip time and at the rate of the links. It drops packets from and to
//! a site that is cut off.
//!
//! Each site has a TUN device, and so has the rest of the machine. For each device, one thread
//! reads packets and appends each to the queue of its destination. Another thread takes the packets
//! of one queue in order, waits until each is due, and writes it to the destination's device. A
//! full queue drops packets, as a router does.

use super::layout::{Marker, RUN};
use super::sites::short_id;
use benthic_core::{Action, Clock, Error, ErrorKind, Result, SystemClock};
use std::fs;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::num::NonZeroU64;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;
use tappers::linux::Tun;
use tappers::{AddAddressV4, DeviceState, Interface};

/// As large as TCP can use: a packet costs two copies and two system calls whatever its size.
const MTU_BYTES: usize = 65_000;
/// A lower limit for links with a rate: behind a packet of [`MTU_BYTES`], other packets would wait
/// for 5 ms at 100 Mbit/s.
const MTU_BYTES_WITH_A_RATE: usize = 9_000;
/// Prefix length: all ends are in the same network.
const NETWORK_BITS: u8 = 24;
/// Limit of the bytes queued for one site: 0.5 s at 1 Gbit/s.
const QUEUE_BYTES_MAX: usize = 64 << 20;
/// Limit of the queue for one site if the links have a rate. A longer queue would add a delay that
/// is not configured.
const QUEUE_LIMIT: Duration = Duration::from_millis(200);
/// Memory of a queued packet beyond its bytes.
const PACKET_OVERHEAD_BYTES: usize = 128;
/// The highest priority below real time.
const PRIORITY: i32 = -20;
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const DONE: &[u8] = b"ok\n";

/// A packet in a queue.
struct Packet {
    /// The monotonic time of delivery.
    due: Duration,
    from: usize,
    bytes: Vec<u8>,
}

/// One end of the links: a site, or, as the last one, the rest of the machine.
struct End {
    address: Ipv4Addr,
    device: Tun,
    queue: Sender<Packet>,
    queued_bytes: AtomicUsize,
}

/// Settings of the links. They can change while packets are queued.
#[derive(Default)]
struct LinkSettings {
    one_way_us: AtomicU64,
    /// 0 for no limit.
    mbit_per_s: AtomicU64,
    /// A bit for each end that is cut off.
    cut: AtomicU32,
}

struct Wan {
    ends: Vec<End>,
    settings: LinkSettings,
}

/// Connects the sites of the cluster in a directory. Runs until an error occurs.
///
/// # Errors
/// `InvalidArgument` if the cluster has no sites, `Busy` if its links are up already, and errors of
/// the devices.
pub fn run(dir: &Path) -> Result<()> {
    // Leave the process group of the parent. The call fails for a group leader, which a shell
    // started directly.
    let _ = rustix::process::setsid();
    // On a busy machine, a waiting thread delivers late. Without this privilege, the delays only
    // vary more.
    let _ = rustix::process::setpriority_process(None, PRIORITY);
    let marker = Marker::read(dir)?.ok_or_else(no_sites)?;
    let (fsid, sites) = (&marker.fsid, marker.sites.as_ref().ok_or_else(no_sites)?);
    if reload(dir).is_ok() {
        return Err(Error::new(ErrorKind::Busy, "the links are up already"));
    }
    let mut ends = Vec::new();
    let mut queues = Vec::new();
    // When a process ends, the kernel removes its devices one by one in this order. So when the
    // last is gone, all are.
    for site in (0..sites.names.len()).map(Some).chain([None]) {
        let address = sites.address(site);
        let mtu_bytes = if sites.mbit_per_s == 0 { MTU_BYTES } else { MTU_BYTES_WITH_A_RATE };
        let device = match site {
            None => open(&device_name(fsid), address, mtu_bytes),
            Some(site) => sites.namespace(site, fsid).run(|| open("wan", address, mtu_bytes)),
        }?;
        let (queue, packets) = mpsc::channel();
        ends.push(End { address, device, queue, queued_bytes: AtomicUsize::new(0) });
        queues.push(packets);
    }
    let wan = Arc::new(Wan { ends, settings: LinkSettings::default() });
    wan.apply(&marker);
    let socket = socket(dir);
    // Remove the socket of an earlier process.
    let _ = fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket)
        .map_err(|error| Error::io(Action::Admin, "cannot listen for commands", error))?;

    let (failed, failure) = mpsc::channel();
    for (end, packets) in queues.into_iter().enumerate() {
        let (wan, failed) = (Arc::clone(&wan), failed.clone());
        let (reader, reader_failed) = (Arc::clone(&wan), failed.clone());
        start("wan-read", move || drop(reader_failed.send(reader.read(end))))?;
        start("wan-write", move || drop(failed.send(wan.write(end, &packets))))?;
    }
    let dir = dir.to_owned();
    start("wan-control", move || drop(failed.send(control(&listener, &dir, &wan))))?;
    match failure.recv() {
        Ok(error) => Err(error),
        Err(_) => Err(Error::new(ErrorKind::Internal, "the links' threads ended")),
    }
}

fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(work);
    started.map(drop).map_err(|error| Error::io(Action::Admin, "cannot start a thread", error))
}

/// The name of the device of the rest of this machine.
pub(super) fn device_name(fsid: &str) -> String {
    format!("bwan{}", short_id(fsid))
}

/// Creates a device in the namespace of this thread. The device exists as long as the process.
fn open(name: &str, address: Ipv4Addr, mtu_bytes: usize) -> Result<Tun> {
    let create = || {
        let device = Tun::create_named(Interface::new(name)?)?;
        device.set_mtu(mtu_bytes)?;
        let mut in_network = AddAddressV4::new(address);
        in_network.set_netmask(NETWORK_BITS);
        device.add_addr(in_network)?;
        device.set_state(DeviceState::Up)?;
        Ok(device)
    };
    create()
        .map_err(|error| Error::io(Action::Admin, "cannot create a TUN device", error).with("device", name))
}

impl Wan {
    /// Reads the packets of one end until its device fails.
    fn read(&self, from: usize) -> Error {
        let mut buffer = vec![0; MTU_BYTES];
        loop {
            let len = match self.ends[from].device.recv(&mut buffer) {
                Ok(len) => len,
                Err(error) => return Error::io(Action::Admin, "a device of the links failed", error),
            };
            let arrived = SystemClock.monotonic();
            let bytes = &buffer[..len];
            let Some(to) = destination(bytes).and_then(|address| self.end(address)) else { continue };
            let queued = self.ends[to].queued_bytes.load(Ordering::Relaxed);
            if to == from || queued > self.settings.queue_bytes_max() {
                continue;
            }
            self.ends[to].queued_bytes.fetch_add(len + PACKET_OVERHEAD_BYTES, Ordering::Relaxed);
            let one_way = Duration::from_micros(self.settings.one_way_us.load(Ordering::Relaxed));
            let packet = Packet { due: arrived + one_way, from, bytes: bytes.to_vec() };
            if self.ends[to].queue.send(packet).is_err() {
                return Error::new(ErrorKind::Internal, "a writer of the links ended");
            }
        }
    }

    /// Delivers packets to one end.
    fn write(&self, to: usize, packets: &Receiver<Packet>) -> Error {
        // By default, the kernel delays timers by up to 50 us to save power.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1_000));
        let mut sent_at = SystemClock.monotonic();
        for packet in packets {
            // The link is busy for as long as the bytes of the packet take.
            let due = packet.due.max(sent_at) + self.settings.time_of(packet.bytes.len());
            while let Some(left) = due.checked_sub(SystemClock.monotonic()).filter(|left| !left.is_zero()) {
                thread::park_timeout(left);
            }
            sent_at = due;
            self.ends[to]
                .queued_bytes
                .fetch_sub(packet.bytes.len() + PACKET_OVERHEAD_BYTES, Ordering::Relaxed);
            let cut = self.settings.cut.load(Ordering::SeqCst);
            if cut & (1 << to | 1 << packet.from) == 0 {
                // A device that is set down drops the packet; TCP sends it again.
                let _ = self.ends[to].device.send(&packet.bytes);
            }
        }
        Error::new(ErrorKind::Internal, "the readers of the links ended")
    }

    fn end(&self, address: Ipv4Addr) -> Option<usize> {
        self.ends.iter().position(|end| end.address == address)
    }

    fn apply(&self, marker: &Marker) {
        let Some(sites) = &marker.sites else { return };
        // Creating a cluster needs no delay on its links.
        let rtt_ms = if marker.complete { sites.rtt_ms } else { 0 };
        self.settings.one_way_us.store(u64::from(rtt_ms) * 500, Ordering::Relaxed);
        let mbit_per_s = if marker.complete { sites.mbit_per_s } else { 0 };
        self.settings.mbit_per_s.store(u64::from(mbit_per_s), Ordering::Relaxed);
        let cut = sites.cut.iter().filter_map(|name| sites.find(name).ok());
        self.settings.cut.store(cut.fold(0, |cut, site| cut | 1 << site), Ordering::SeqCst);
    }
}

impl LinkSettings {
    /// The time that a packet's bytes take on a link.
    fn time_of(&self, len_bytes: usize) -> Duration {
        match self.mbit_per_s.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            mbit_per_s => Duration::from_nanos(len_bytes as u64 * 8_000 / mbit_per_s),
        }
    }

    fn queue_bytes_max(&self) -> usize {
        match self.mbit_per_s.load(Ordering::Relaxed) as usize {
            0 => QUEUE_BYTES_MAX,
            mbit_per_s => mbit_per_s * 125 * QUEUE_LIMIT.as_millis() as usize,
        }
    }
}

/// The destination of an IPv4 packet. The links carry no other kind of packet.
fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let address: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    (packet[0] >> 4 == 4).then(|| Ipv4Addr::from(address))
}

/// Reads the marker again on each connection, and answers when the new settings are in effect.
fn control(listener: &UnixListener, dir: &Path, wan: &Wan) -> Error {
    let apply = || Marker::read(dir)?.ok_or_else(no_sites).map(|marker| wan.apply(&marker));
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => return Error::io(Action::Admin, "cannot listen for commands", error),
        };
        // A client that went away does not need the answer.
        let _ = match apply() {
            Ok(()) => stream.write_all(DONE),
            Err(error) => stream.write_all(error.to_string().as_bytes()),
        };
    }
}

/// Makes the running links apply the settings of the marker. Returns when they are in effect.
///
/// # Errors
/// `Unavailable` if the links are down or do not answer.
pub fn reload(dir: &Path) -> Result<()> {
    let mut answer = Vec::new();
    let received = UnixStream::connect(socket(dir)).and_then(|mut stream| {
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        stream.read_to_end(&mut answer)
    });
    match received {
        Ok(_) if answer == DONE => Ok(()),
        Ok(_) => {
            let message = format!("the links refused: {}", String::from_utf8_lossy(&answer));
            Err(Error::new(ErrorKind::Unavailable, message))
        }
        Err(error) => Err(Error::new(
            ErrorKind::Unavailable,
            "the links between the sites are down; `benthic cluster start wan` starts them",
        )
        .with_source(error)),
    }
}

/// The error for a cluster without sites.
pub fn no_sites() -> Error {
    let message = "the cluster has no sites; `benthic cluster up --sites um,msu,wsu` creates one with sites";
    Error::new(ErrorKind::InvalidArgument, message)
}

fn socket(dir: &Path) -> PathBuf {
    dir.join(RUN).join("wan.sock")
}
