use super::client::{self, HeldLock, LockRequest};
use super::state::LockState;
use super::wire::{HOLDERS_MAX, LEASE_MS_MAX, LOCKS_MAX, Mode, TEXT_BYTES_MAX};
use benthic_core::{ClassCall, ErrorKind, Fetch, ObjectId, Pool, Result, Store, WriteOp};
use benthic_embedded::{MemStore, Options};
use futures::executor::block_on;
use std::sync::Arc;

struct Fixture {
    pool: Arc<dyn Pool>,
    object: ObjectId,
}

impl Fixture {
    fn new() -> Fixture {
        let store = MemStore::new(Options::default().with_classes(crate::registry()));
        block_on(store.create_pool("p")).unwrap();
        Fixture { pool: block_on(store.open_pool("p")).unwrap(), object: ObjectId::new("o").unwrap() }
    }

    fn exec(&self, method: &str, input: &str) -> Result<String> {
        let call = ClassCall { class: "lock".into(), method: method.into(), input: input.to_owned().into() };
        block_on(self.pool.exec(&self.object, call)).map(|output| String::from_utf8(output.to_vec()).unwrap())
    }

    fn kind(&self, method: &str, input: &str) -> ErrorKind {
        self.exec(method, input).unwrap_err().kind()
    }

    fn acquire(&self, owner: &str, mode: Mode) -> Result<HeldLock> {
        block_on(HeldLock::acquire(Arc::clone(&self.pool), self.object.clone(), request(owner, mode)))
    }

    fn holders(&self) -> Vec<String> {
        let locks = block_on(client::list(self.pool.as_ref(), &self.object)).unwrap();
        locks.into_iter().flat_map(|lock| lock.holders).map(|holder| holder.owner).collect()
    }

    fn set_lock(&self, name: &str, value: &str) {
        let entries = [(format!("lock/{name}"), value.to_owned())];
        block_on(self.pool.write(&self.object, WriteOp::new().omap_set(entries))).unwrap();
    }
}

fn request(owner: &str, mode: Mode) -> LockRequest {
    LockRequest {
        name: "l".into(),
        owner: owner.into(),
        cookie: "1".into(),
        mode,
        lease_ms: Some(LEASE_MS_MAX),
    }
}

#[test]
fn a_lease_ends_at_its_expiry_time() {
    let mut lock = LockState::default();
    lock.acquire("ada", "1", Mode::Exclusive, Some(1_000)).unwrap();
    lock.drop_expired(999);
    assert_eq!(lock.acquire("bob", "1", Mode::Shared, None).unwrap_err().kind(), ErrorKind::Busy);
    lock.check_held("ada", "1", Some(Mode::Exclusive)).unwrap();
    lock.renew("ada", "1", Some(2_000)).unwrap();
    lock.drop_expired(1_999);
    assert!(!lock.is_free());
    lock.drop_expired(2_000);
    assert!(lock.is_free());
    assert_eq!(lock.renew("ada", "1", None).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(lock.check_held("ada", "1", None).unwrap_err().kind(), ErrorKind::Conflict);
    lock.acquire("bob", "1", Mode::Shared, None).unwrap();
    lock.drop_expired(u64::MAX);
    lock.check_held("bob", "1", Some(Mode::Shared)).unwrap();
    assert_eq!(lock.check_held("bob", "1", Some(Mode::Exclusive)).unwrap_err().kind(), ErrorKind::Conflict);
}

#[test]
fn the_mode_changes_if_no_other_holder_conflicts() {
    let mut lock = LockState::default();
    lock.acquire("ada", "1", Mode::Shared, None).unwrap();
    lock.acquire("ada", "1", Mode::Exclusive, None).unwrap();
    lock.acquire("ada", "1", Mode::Shared, None).unwrap();
    lock.acquire("ada", "2", Mode::Shared, None).unwrap();
    assert_eq!(lock.acquire("ada", "1", Mode::Exclusive, None).unwrap_err().kind(), ErrorKind::Busy);
    assert_eq!((lock.mode, lock.holders.len()), (Mode::Shared, 2));
    assert!(lock.remove("ada", Some("2")));
    assert!(!lock.remove("ada", Some("2")));
    assert!(!lock.remove("bob", None));
    lock.acquire("ada", "1", Mode::Exclusive, None).unwrap();
    assert!(lock.remove("ada", None));
    assert!(lock.is_free());
}

#[test]
fn a_lock_has_a_limited_number_of_holders_and_bytes() {
    let mut lock = LockState::default();
    // The longest possible text: each of its bytes is escaped.
    let text = |at: usize| format!("{at:04}{}", "\"".repeat(TEXT_BYTES_MAX - 4));
    for at in 0..HOLDERS_MAX {
        lock.acquire(&text(at), &text(at), Mode::Shared, Some(u64::MAX)).unwrap();
    }
    let error = lock.acquire("one more", "", Mode::Shared, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    lock.acquire(&text(0), &text(0), Mode::Shared, None).unwrap();
    assert_eq!(LockState::decode(&lock.encode()).unwrap(), lock);
}

#[test]
fn a_malformed_stored_lock_is_corrupt() {
    let holder = r#"{"owner":"a","cookie":""}"#;
    let long = format!(r#"{{"owner":"{}","cookie":""}}"#, "a".repeat(TEXT_BYTES_MAX + 1));
    let lock =
        |mode: &str, holders: &str| format!(r#"{{"version":1,"mode":"{mode}","holders":[{holders}]}}"#);
    LockState::decode(lock("shared", holder).as_bytes()).unwrap();
    for value in [
        String::new(),
        "x".to_owned(),
        lock("shared", holder) + "x",
        lock("shared", holder).replace(":1,", ":-1,"),
        lock("other", holder),
        lock("shared", ""),
        lock("shared", &format!("{holder},{holder}")),
        lock("exclusive", &format!(r#"{holder},{{"owner":"b","cookie":""}}"#)),
        lock("shared", r#"{"owner":"","cookie":""}"#),
        lock("shared", r#"{"owner":"\u0000","cookie":""}"#),
        lock("shared", r#"{"owner":"a"}"#),
        lock("shared", &long),
        lock("shared", holder) + &" ".repeat(100_000),
        "[".repeat(50_000),
    ] {
        assert_eq!(
            LockState::decode(value.as_bytes()).unwrap_err().kind(),
            ErrorKind::Corrupt,
            "{value:.100}"
        );
    }
    let newer = r#"{"version":2,"mode":"shared","holders":[],"more":1}"#;
    assert_eq!(LockState::decode(newer.as_bytes()).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn damage_at_random_never_panics() {
    let mut lock = LockState::default();
    lock.acquire("ada", "1", Mode::Shared, Some(1_700_000_000_000)).unwrap();
    lock.acquire("bob", "", Mode::Shared, None).unwrap();
    let whole = lock.encode();
    for at in 0..whole.len() {
        assert_eq!(LockState::decode(&whole[..at]).unwrap_err().kind(), ErrorKind::Corrupt, "{at}");
        for bit in 0..8 {
            let mut damaged = whole.to_vec();
            damaged[at] ^= 1 << bit;
            // If a damaged value still decodes, it survives another round trip.
            if let Ok(lock) = LockState::decode(&damaged) {
                assert_eq!(LockState::decode(&lock.encode()).unwrap(), lock);
            }
        }
    }
}

#[test]
fn corrupt_locks_are_named_and_leave_the_others_alone() {
    let fixture = Fixture::new();
    fixture.set_lock("bad", "nonsense");
    for method in ["acquire", "renew", "release", "break", "assert"] {
        let error = fixture.exec(method, r#"{"name":"bad","owner":"ada"}"#).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{method}");
        assert!(error.to_string().contains("lock=bad"), "{error}");
    }
    assert_eq!(fixture.kind("list", ""), ErrorKind::Corrupt);
    let held = fixture.acquire("ada", Mode::Exclusive).unwrap();
    assert!(fixture.exec("list", "l").unwrap().contains("ada"));
    block_on(held.release()).unwrap();
    assert_eq!(fixture.exec("list", "l").unwrap(), "[]");
    assert_eq!(fixture.exec("list", "other").unwrap(), "[]");
}

#[test]
fn expired_locks_do_not_count_at_the_limit() {
    let fixture = Fixture::new();
    let acquire = |at: usize| fixture.exec("acquire", &format!(r#"{{"name":"{at}","owner":"ada"}}"#));
    for at in 0..LOCKS_MAX {
        acquire(at).unwrap();
    }
    assert_eq!(acquire(LOCKS_MAX).unwrap_err().kind(), ErrorKind::LimitExceeded);
    acquire(0).unwrap();
    let expired =
        r#"{"version":1,"mode":"exclusive","holders":[{"owner":"x","cookie":"","expires_unix_ms":1}]}"#;
    fixture.set_lock("7", expired);
    fixture.set_lock("8", expired);
    acquire(LOCKS_MAX).unwrap();
    assert_eq!(fixture.holders().len(), LOCKS_MAX - 1);
    acquire(LOCKS_MAX + 1).unwrap();
    assert_eq!(acquire(LOCKS_MAX + 2).unwrap_err().kind(), ErrorKind::LimitExceeded);
}

#[test]
fn writes_happen_only_under_the_lock() {
    let fixture = Fixture::new();
    let held = fixture.acquire("ada", Mode::Exclusive).unwrap();
    block_on(held.write(WriteOp::new().write_full("by ada"))).unwrap();
    assert_eq!(block_on(held.fetch(Fetch::read(0, 100))).unwrap().0, "by ada");
    held_is_refused_after(&fixture, held);
    assert_eq!(block_on(fixture.pool.read_range(&fixture.object, 0, 100)).unwrap(), "by ada");
}

fn held_is_refused_after(fixture: &Fixture, held: HeldLock) {
    block_on(client::break_lock(fixture.pool.as_ref(), &fixture.object, "l", "ada", None)).unwrap();
    let bob = fixture.acquire("bob", Mode::Shared).unwrap();
    let late = block_on(held.write(WriteOp::new().write_full("too late")));
    assert_eq!(late.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(block_on(held.fetch(Fetch::stat())).unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(block_on(held.renew()).unwrap_err().kind(), ErrorKind::Conflict);
    block_on(held.release()).unwrap();
    assert_eq!(fixture.holders(), ["bob"]);
    block_on(bob.renew()).unwrap();
    block_on(bob.release()).unwrap();
    assert!(fixture.holders().is_empty());
}

#[test]
fn a_lock_is_lost_with_its_object() {
    let fixture = Fixture::new();
    let held = fixture.acquire("ada", Mode::Exclusive).unwrap();
    // If the operation itself fails with `NotFound`, the lock is not involved.
    let missing = || Fetch::get_xattr("missing");
    assert_eq!(block_on(held.fetch(missing())).unwrap_err().kind(), ErrorKind::NotFound);
    let lost = || {
        let write = block_on(held.write(WriteOp::new().write_full("too late")));
        let read = block_on(held.fetch(missing()));
        [write.unwrap_err(), read.unwrap_err(), block_on(held.renew()).unwrap_err()].map(|error| error.kind())
    };
    block_on(fixture.pool.write(&fixture.object, WriteOp::new().remove())).unwrap();
    assert_eq!(lost(), [ErrorKind::Conflict; 3]);
    assert_eq!(block_on(fixture.pool.stat(&fixture.object)).unwrap_err().kind(), ErrorKind::NotFound);
    block_on(fixture.pool.write(&fixture.object, WriteOp::new().create(true))).unwrap();
    assert_eq!(lost(), [ErrorKind::Conflict; 3]);
}

#[test]
fn waiting_ends_when_the_lock_is_free_or_the_time_is_over() {
    let fixture = Fixture::new();
    let _ada = fixture.acquire("ada", Mode::Exclusive).unwrap();
    let acquire_with_retry = |wait_ms_max, free_after_ms: u64| {
        let mut waited_ms = 0;
        let pause = async |ms: u64| {
            waited_ms += ms;
            if waited_ms >= free_after_ms {
                client::break_lock(&*fixture.pool, &fixture.object, "l", "ada", None).await.unwrap();
            }
        };
        let (pool, object) = (Arc::clone(&fixture.pool), fixture.object.clone());
        let request = request("bob", Mode::Exclusive);
        let result = block_on(HeldLock::acquire_with_retry(pool, object, request, wait_ms_max, pause));
        (result.map(|_| ()).map_err(|error| error.kind()), waited_ms)
    };
    assert_eq!(acquire_with_retry(0, u64::MAX), (Err(ErrorKind::Busy), 0));
    assert_eq!(acquire_with_retry(1_234, u64::MAX), (Err(ErrorKind::Busy), 1_234));
    assert_eq!(acquire_with_retry(1_234, 30), (Ok(()), 30));
}

#[test]
fn bad_input_is_refused() {
    let fixture = Fixture::new();
    for (method, input) in [
        ("acquire", ""),
        ("acquire", "ada"),
        ("acquire", "{}"),
        ("acquire", r#"["l","ada"]"#),
        ("acquire", r#"{"owner":""}"#),
        ("acquire", r#"{"owner":"a\nb"}"#),
        ("acquire", r#"{"owner":"ada","name":""}"#),
        ("acquire", r#"{"owner":"ada","lease_ms":0}"#),
        ("acquire", r#"{"owner":"ada","lease_ms":-1}"#),
        ("acquire", r#"{"owner":"ada","mode":"Shared"}"#),
        ("acquire", r#"{"owner":"ada","colour":"red"}"#),
        ("renew", r#"{"owner":"ada","mode":"shared"}"#),
        ("release", r#"{"owner":"ada","lease_ms":1}"#),
        ("break", r#"{"owner":"ada","mode":"shared"}"#),
    ] {
        assert_eq!(fixture.kind(method, input), ErrorKind::InvalidArgument, "{method} {input}");
    }
    let long = "x".repeat(TEXT_BYTES_MAX + 1);
    for input in [
        format!(r#"{{"owner":"{long}"}}"#),
        format!(r#"{{"owner":"a","cookie":"{long}"}}"#),
        format!(r#"{{"owner":"a","name":"{long}"}}"#),
        format!(r#"{{"owner":"a","lease_ms":{}}}"#, LEASE_MS_MAX + 1),
        " ".repeat(10_000),
    ] {
        assert_eq!(fixture.kind("acquire", &input), ErrorKind::LimitExceeded, "{input:.50}");
    }
    block_on(fixture.pool.write(&fixture.object, WriteOp::new().create(true))).unwrap();
    assert_eq!(fixture.kind("assert", r#"{"owner":"ada","lease_ms":1}"#), ErrorKind::InvalidArgument);
    assert_eq!(fixture.kind("list", &long), ErrorKind::LimitExceeded);
    assert_eq!(fixture.exec("list", "").unwrap(), "[]");
}
