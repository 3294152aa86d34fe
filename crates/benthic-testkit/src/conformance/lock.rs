//! The class `lock`: state shared by several clients, and a method that guards the operation that
//! calls it.

use super::Case;
use super::support::{ObjectContent, kind};
use benthic_core::{ErrorKind, ObjectId, ReadOp, ReadOutput, WriteOp};
use futures::executor::block_on;
use serde_json::{Value, json};
use std::thread;

const ADA: &str = r#"{"owner":"ada","cookie":"1"}"#;
const BOB: &str = r#"{"owner":"bob","cookie":"1"}"#;
const ADA_SHARED: &str = r#"{"owner":"ada","cookie":"1","mode":"shared"}"#;
const BOB_SHARED: &str = r#"{"owner":"bob","cookie":"1","mode":"shared"}"#;

/// The lock holders, as `owner/cookie`.
async fn holders(case: &Case<'_>, object: &ObjectId, name: &str) -> Vec<String> {
    let listed = case.exec(object, "lock", "list", name).await.unwrap();
    let listed: Value = serde_json::from_slice(&listed).unwrap();
    let holder = |holder: &Value| {
        format!("{}/{}", holder["owner"].as_str().unwrap(), holder["cookie"].as_str().unwrap())
    };
    let locks = listed.as_array().unwrap().iter();
    locks.flat_map(|lock| lock["holders"].as_array().unwrap()).map(holder).collect()
}

pub(super) async fn an_exclusive_lock_keeps_all_others_out(case: &Case<'_>) {
    let object = case.make_full("o").await;
    case.exec(&object, "lock", "acquire", ADA).await.unwrap();
    let version = case.version(&object).await;
    for other in [BOB, BOB_SHARED, r#"{"owner":"ada","cookie":"2"}"#, r#"{"owner":"ada"}"#] {
        assert_eq!(kind(case.exec(&object, "lock", "acquire", other).await), ErrorKind::Busy, "{other}");
    }
    assert_eq!(case.version(&object).await, version);
    let listed = case.exec(&object, "lock", "list", "").await.unwrap();
    let expected = json!([{
        "name": "default",
        "mode": "exclusive",
        "holders": [{ "owner": "ada", "cookie": "1", "left_ms": null }],
    }]);
    assert_eq!(serde_json::from_slice::<Value>(&listed).unwrap(), expected);
    let state = case.state(&object).await.unwrap();
    assert_eq!((state.data, state.xattrs), (ObjectContent::full().data, ObjectContent::full().xattrs));
    assert_eq!(state.omap.keys().collect::<Vec<_>>(), ["K", "lock/default"]);
    case.exec(&object, "lock", "release", ADA).await.unwrap();
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
    case.exec(&object, "lock", "acquire", BOB).await.unwrap();
    assert_eq!(holders(case, &object, "").await, ["bob/1"]);
}

pub(super) async fn a_shared_lock_is_shared(case: &Case<'_>) {
    let object = case.object("o");
    // Acquiring a lock creates the object.
    case.exec(&object, "lock", "acquire", ADA_SHARED).await.unwrap();
    case.exec(&object, "lock", "acquire", BOB_SHARED).await.unwrap();
    assert_eq!(holders(case, &object, "default").await, ["ada/1", "bob/1"]);
    assert_eq!(kind(case.exec(&object, "lock", "acquire", ADA).await), ErrorKind::Busy);
    case.exec(&object, "lock", "release", BOB).await.unwrap();
    // A sole lock holder can switch to an exclusive lock and back.
    case.exec(&object, "lock", "acquire", ADA).await.unwrap();
    assert_eq!(kind(case.exec(&object, "lock", "acquire", BOB_SHARED).await), ErrorKind::Busy);
    case.exec(&object, "lock", "acquire", ADA_SHARED).await.unwrap();
    case.exec(&object, "lock", "acquire", BOB_SHARED).await.unwrap();
}

pub(super) async fn retries_of_acquire_and_release_are_harmless(case: &Case<'_>) {
    let object = case.object("o");
    for _ in 0..2 {
        case.exec(&object, "lock", "acquire", ADA).await.unwrap();
    }
    assert_eq!(holders(case, &object, "").await, ["ada/1"]);
    for _ in 0..2 {
        case.exec(&object, "lock", "release", ADA).await.unwrap();
    }
    case.exec(&object, "lock", "acquire", BOB).await.unwrap();
    case.exec(&object, "lock", "release", ADA).await.unwrap();
    case.exec(&object, "lock", "break", ADA).await.unwrap();
    assert_eq!(holders(case, &object, "").await, ["bob/1"]);
    // Releasing a lock on a missing object does not create the object.
    let missing = case.object("missing");
    case.exec(&missing, "lock", "release", ADA).await.unwrap();
    case.exec(&missing, "lock", "break", ADA).await.unwrap();
    assert_eq!(case.state(&missing).await, None);
}

pub(super) async fn a_lease_expires(case: &Case<'_>) {
    let object = case.object("o");
    let lease = |lease_ms: u64| format!(r#"{{"owner":"ada","cookie":"1","lease_ms":{lease_ms}}}"#);
    case.exec(&object, "lock", "acquire", &lease(3_600_000)).await.unwrap();
    assert_eq!(kind(case.exec(&object, "lock", "acquire", BOB).await), ErrorKind::Busy);
    let listed = case.exec(&object, "lock", "list", "").await.unwrap();
    let listed: Value = serde_json::from_slice(&listed).unwrap();
    let left_ms = listed[0]["holders"][0]["left_ms"].as_u64().unwrap();
    assert!((1..=3_600_000).contains(&left_ms), "{left_ms}");
    case.exec(&object, "lock", "renew", &lease(1)).await.unwrap();
    while let Err(error) = case.exec(&object, "lock", "acquire", BOB).await {
        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    }
    assert_eq!(holders(case, &object, "").await, ["bob/1"]);
    assert_eq!(kind(case.exec(&object, "lock", "renew", &lease(1)).await), ErrorKind::Conflict);
    assert_eq!(kind(case.exec(&object, "lock", "assert", ADA).await), ErrorKind::Conflict);
}

pub(super) async fn the_holder_of_a_broken_lock_loses_it(case: &Case<'_>) {
    let object = case.object("o");
    for owner in [ADA_SHARED, r#"{"owner":"ada","cookie":"2","mode":"shared"}"#, BOB_SHARED] {
        case.exec(&object, "lock", "acquire", owner).await.unwrap();
    }
    case.exec(&object, "lock", "break", ADA).await.unwrap();
    assert_eq!(holders(case, &object, "").await, ["ada/2", "bob/1"]);
    assert_eq!(kind(case.exec(&object, "lock", "renew", ADA).await), ErrorKind::Conflict);
    case.exec(&object, "lock", "acquire", ADA_SHARED).await.unwrap();
    case.exec(&object, "lock", "break", r#"{"owner":"ada"}"#).await.unwrap();
    assert_eq!(holders(case, &object, "").await, ["bob/1"]);
}

pub(super) async fn assert_guards_its_operation(case: &Case<'_>) {
    let object = case.object("o");
    let write = |input: &str| WriteOp::new().exec("lock", "assert", input.to_owned()).append("x");
    assert_eq!(kind(case.pool.write(&object, write(ADA)).await), ErrorKind::NotFound);
    case.exec(&object, "lock", "acquire", ADA_SHARED).await.unwrap();
    case.pool.write(&object, write(ADA)).await.unwrap();
    case.pool.write(&object, write(ADA_SHARED)).await.unwrap();
    let exclusive = r#"{"owner":"ada","cookie":"1","mode":"exclusive"}"#;
    for input in [BOB, exclusive, r#"{"owner":"ada"}"#, r#"{"name":"other","owner":"ada","cookie":"1"}"#] {
        assert_eq!(kind(case.pool.write(&object, write(input)).await), ErrorKind::Conflict, "{input}");
        let read = ReadOp::new().exec("lock", "assert", input).read(0, 9);
        assert_eq!(kind(case.pool.read(&object, read).await), ErrorKind::Conflict, "{input}");
    }
    case.exec(&object, "lock", "acquire", ADA).await.unwrap();
    case.pool.write(&object, write(exclusive)).await.unwrap();
    let read = ReadOp::new().exec("lock", "assert", exclusive).read(0, 9);
    let outputs = case.pool.read(&object, read).await.unwrap().outputs;
    assert_eq!(outputs, [ReadOutput::Exec("".into()), ReadOutput::Data("xxx".into())]);
    case.exec(&object, "lock", "release", ADA).await.unwrap();
    assert_eq!(kind(case.pool.write(&object, write(ADA)).await), ErrorKind::Conflict);
    assert_eq!(case.state(&object).await, Some(ObjectContent::data("xxx")));
    // Removing the object removes the lock, and a late write does not recreate the object.
    case.exec(&object, "lock", "acquire", ADA).await.unwrap();
    case.pool.write(&object, WriteOp::new().remove()).await.unwrap();
    assert_eq!(kind(case.pool.write(&object, write(ADA)).await), ErrorKind::NotFound);
    assert_eq!(kind(case.exec(&object, "lock", "renew", ADA).await), ErrorKind::Conflict);
    assert_eq!(case.state(&object).await, None);
    case.pool.write(&object, WriteOp::new().create(true)).await.unwrap();
    assert_eq!(kind(case.pool.write(&object, write(ADA)).await), ErrorKind::Conflict);
}

pub(super) async fn locks_with_different_names_are_independent(case: &Case<'_>) {
    let object = case.object("o");
    let named = |name: &str, owner: &str| json!({ "name": name, "owner": owner }).to_string();
    for (name, owner) in [("é", "ada"), ("e", "bob"), ("a b/c", "cyd")] {
        case.exec(&object, "lock", "acquire", &named(name, owner)).await.unwrap();
    }
    assert_eq!(kind(case.exec(&object, "lock", "acquire", &named("e", "ada")).await), ErrorKind::Busy);
    assert_eq!(holders(case, &object, "é").await, ["ada/"]);
    assert_eq!(holders(case, &object, "").await, ["cyd/", "bob/", "ada/"]);
    case.exec(&object, "lock", "release", &named("e", "bob")).await.unwrap();
    assert_eq!(holders(case, &object, "").await, ["cyd/", "ada/"]);
}

/// Each thread reads a counter and writes it in two operations. Only the lock prevents lost
/// updates.
pub(super) async fn parallel_changes_under_a_lock_lose_nothing(case: &Case<'_>) {
    const THREADS: usize = 4;
    const ROUNDS: usize = 5;
    let object = case.object("o");
    case.pool.write_full(&object, "0").await.unwrap();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let object = &object;
            scope.spawn(move || {
                let me = json!({ "owner": "counter", "cookie": thread.to_string() }).to_string();
                for _ in 0..ROUNDS {
                    while let Err(error) = block_on(case.exec(object, "lock", "acquire", &me)) {
                        assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                    }
                    let count = block_on(case.pool.read_range(object, 0, 9)).unwrap();
                    let count: usize = str::from_utf8(&count).unwrap().parse().unwrap();
                    let op = WriteOp::new().exec("lock", "assert", me.clone());
                    block_on(case.pool.write(object, op.write_full((count + 1).to_string()))).unwrap();
                    block_on(case.exec(object, "lock", "release", &me)).unwrap();
                }
            });
        }
    });
    assert_eq!(case.state(&object).await, Some(ObjectContent::data((THREADS * ROUNDS).to_string())));
}

pub(super) async fn bad_input_and_bad_locks_are_refused(case: &Case<'_>) {
    let object = case.make_full("o").await;
    let long = "x".repeat(129);
    for (method, input, expected) in [
        ("acquire", "ada", ErrorKind::InvalidArgument),
        ("acquire", "{}", ErrorKind::InvalidArgument),
        ("acquire", r#"{"owner":"ada","lease_ms":0}"#, ErrorKind::InvalidArgument),
        ("renew", r#"{"owner":"ada","mode":"shared"}"#, ErrorKind::InvalidArgument),
        ("assert", r#"{"owner":"ada","lease_ms":1}"#, ErrorKind::InvalidArgument),
        ("acquire", &json!({ "owner": long }).to_string(), ErrorKind::LimitExceeded),
        ("list", &long, ErrorKind::LimitExceeded),
    ] {
        assert_eq!(kind(case.exec(&object, "lock", method, input).await), expected, "{method} {input}");
    }
    assert_eq!(case.state(&object).await, Some(ObjectContent::full()));
    case.pool.write(&object, WriteOp::new().omap_set([("lock/default", "{}")])).await.unwrap();
    for method in ["acquire", "renew", "release", "break", "assert"] {
        assert_eq!(kind(case.exec(&object, "lock", method, ADA).await), ErrorKind::Corrupt, "{method}");
    }
    assert_eq!(kind(case.exec(&object, "lock", "list", "").await), ErrorKind::Corrupt);
}
