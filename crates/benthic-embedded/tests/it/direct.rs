//! Clients that read the data file themselves never see an old value, on any of the ways on which
//! an object changes, and go on without the owner's help.

use crate::support::{block_on, id, noise, open, options, pool, with_pool};
use benthic_core::{ErrorKind, Pool, Store, WriteOp};
use benthic_embedded::{EmbeddedStore, Options};
use benthic_testkit::random::Rng;
use benthic_testkit::seed;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

const LEN: usize = 65_536;
const DIR_VARIABLE: &str = "BENTHIC_DIRECT_DIR";

/// A process that owns the store.
struct OwnerProcess(Child);

impl OwnerProcess {
    fn start(dir: &Path) -> OwnerProcess {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["direct::owner_child", "--exact", "--ignored", "--nocapture"]);
        command.env(DIR_VARIABLE, dir).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("the store is open")));
        OwnerProcess(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    /// Stops the process, and waits until none of its threads runs: the signal alone may reach them
    /// after an answer.
    fn stop(&self) {
        self.signal(Signal::STOP);
        let (_, status) = waitpid(Some(Pid::from_child(&self.0)), WaitOptions::UNTRACED).unwrap().unwrap();
        assert!(status.stopped());
    }
}

impl Drop for OwnerProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "the other tests start it"]
#[expect(clippy::print_stdout, reason = "the parent waits for this line")]
fn owner_child() {
    let dir = PathBuf::from(std::env::var(DIR_VARIABLE).unwrap());
    let store = open(&dir);
    let _ = block_on(store.create_pool("p"));
    println!("\nthe store is open");
    let _ = std::io::stdin().read(&mut [0]);
}

/// Begins to read an object of [`LEN`] bytes.
fn start_read(pool: &Arc<dyn Pool>, name: &'static str) -> Receiver<Vec<u8>> {
    let (done, answer) = channel();
    let pool = Arc::clone(pool);
    std::thread::spawn(move || {
        done.send(block_on(pool.read_range(&id(name), 0, LEN as u64)).unwrap().to_vec())
    });
    answer
}

/// Reads an object of [`LEN`] bytes, which must not take long.
fn read_soon(pool: &Arc<dyn Pool>, name: &'static str) -> Vec<u8> {
    start_read(pool, name).recv_timeout(Duration::from_secs(60)).unwrap()
}

#[test]
fn a_repeated_read_does_not_need_the_owner() {
    let dir = tempfile::tempdir().unwrap();
    let owner = OwnerProcess::start(dir.path());
    let client = open(dir.path());
    assert!(!client.is_owner());
    let pool = pool(&client);
    for name in ["known", "unknown"] {
        block_on(pool.write_full(&id(name), noise(1, LEN))).unwrap();
    }
    assert_eq!(read_soon(&pool, "known"), noise(1, LEN));
    owner.stop();
    assert_eq!(read_soon(&pool, "known"), noise(1, LEN));
    let unknown = start_read(&pool, "unknown");
    let early = unknown.recv_timeout(Duration::from_millis(500));
    assert_eq!(early, Err(RecvTimeoutError::Timeout), "only the owner knows where it is");
    owner.signal(Signal::CONT);
    assert_eq!(unknown.recv_timeout(Duration::from_secs(60)).unwrap(), noise(1, LEN));
    block_on(pool.write_full(&id("known"), noise(2, LEN))).unwrap();
    assert_eq!(read_soon(&pool, "known"), noise(2, LEN));
}

#[test]
fn the_next_owner_is_not_overlooked() {
    let dir = tempfile::tempdir().unwrap();
    let owner = OwnerProcess::start(dir.path());
    let client = open(dir.path());
    let far = pool(&client);
    block_on(far.write_full(&id("o"), noise(1, LEN))).unwrap();
    assert_eq!(read_soon(&far, "o"), noise(1, LEN));
    owner.signal(Signal::KILL);
    drop(owner);
    // This handle takes over, before or after the client notices the death.
    let next = open(dir.path());
    assert!(next.is_owner() || client.is_owner());
    block_on(pool(&next).write_full(&id("o"), noise(2, LEN))).unwrap();
    assert_eq!(read_soon(&far, "o"), noise(2, LEN));
}

#[test]
fn objects_of_a_removed_pool_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let (owner, _) = with_pool(dir.path());
    let client = open(dir.path());
    let far = pool(&client);
    block_on(far.write_full(&id("o"), noise(1, LEN))).unwrap();
    for _ in 0..2 {
        block_on(far.read_range(&id("o"), 0, 10)).unwrap();
    }
    block_on(owner.remove_pool("p")).unwrap();
    assert_eq!(block_on(far.read_range(&id("o"), 0, 10)).unwrap_err().kind(), ErrorKind::NotFound);
    block_on(owner.create_pool("p")).unwrap();
    assert_eq!(block_on(far.read_range(&id("o"), 0, 10)).unwrap_err().kind(), ErrorKind::NotFound);
}

/// An object with one writer, so that the order of its states is known. State 0 is that there is no
/// object.
#[derive(Default)]
struct Register {
    /// The last state that was begun, and the last one that was acknowledged.
    begun: AtomicU64,
    done: AtomicU64,
}

/// In every fourth state there is no object.
fn is_absent(state: u64) -> bool {
    state.is_multiple_of(4)
}

fn data_of(state: u64, len: usize) -> Vec<u8> {
    let mut data = vec![state as u8; len];
    data[..8].copy_from_slice(&state.to_le_bytes());
    data
}

fn write_states(register: &Register, pools: &[Arc<dyn Pool>], name: &str, random: &mut Rng, states: u64) {
    for state in 1..=states {
        register.begun.store(state, Ordering::SeqCst);
        let op = match [5_000, LEN, 3 * LEN / 2][random.below(3)] {
            _ if is_absent(state) => WriteOp::new().remove(),
            len => WriteOp::new().write_full(data_of(state, len)),
        };
        let op = if random.one_in(2) { op.buffered() } else { op };
        block_on(pools[random.below(pools.len())].write(&id(name), op)).unwrap();
        register.done.store(state, Ordering::SeqCst);
    }
}

/// Reads until the last state, and checks that each state is one between the call and the answer.
fn check_reads(register: &Register, pool: &dyn Pool, name: &str, random: &mut Rng, states: u64) {
    loop {
        let first = register.done.load(Ordering::SeqCst);
        let len = [8, 4_000, LEN, 4 * LEN][random.below(4)];
        let answer = block_on(pool.read_range(&id(name), 0, len as u64));
        let last = register.begun.load(Ordering::SeqCst);
        match answer {
            Ok(data) => {
                let state = u64::from_le_bytes(data[..8].try_into().unwrap());
                assert!(
                    (first..=last).contains(&state) && !is_absent(state),
                    "{state} not in {first}..={last}"
                );
                assert!(
                    data[8..].iter().all(|byte| *byte == state as u8),
                    "state {state} is mixed with another"
                );
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::NotFound);
                assert!((first..=last).any(is_absent), "no object between {first} and {last}");
            }
        }
        if first == states {
            return;
        }
    }
}

#[test]
fn clients_never_see_an_old_value() {
    let states = if seed::is_long() { 40_001 } else { 161 };
    let dir = tempfile::tempdir().unwrap();
    // A short log makes the cleaner return freed extents all the time.
    let options = || Options { log_bytes_max: 20_000, ..options() };
    let open = || EmbeddedStore::open(dir.path(), true, options()).unwrap();
    let owner = open();
    block_on(owner.create_pool("p")).unwrap();
    let stores = [owner, open(), open()];
    let pools: Vec<_> = stores.iter().map(|store| pool(store)).collect();
    let registers: Vec<_> = ["a", "b", "c"].map(|name| (name, Register::default())).into();
    let seed = seed::one();
    std::thread::scope(|scope| {
        for (index, (name, register)) in registers.iter().enumerate() {
            let pools = &pools;
            let random = move |thread: u64| Rng(seed ^ (index as u64) << 32 ^ thread << 48);
            scope.spawn(move || write_states(register, pools, name, &mut random(0), states));
            for (client, pool) in pools.iter().enumerate().skip(1) {
                let mut random = random(client as u64);
                scope.spawn(move || check_reads(register, &**pool, name, &mut random, states));
            }
        }
    });
}
