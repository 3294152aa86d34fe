//! Accounts, users, groups, roles and keys that two processes change at the same time.

use crate::sal::Pools;
use crate::sal::faulty::{FaultPlan, FaultyPool, Last};
use async_trait::async_trait;
use benthic_core::{
    ClassCall, Environment, Error, ErrorKind, ListPage, ListRequest, ObjectId, Pool, ReadOp, ReadReply,
    Result, Store, WriteOp, WriteReply,
};
use benthic_embedded::{MemStore, Options};
use benthic_s3::PoolSal;
use benthic_s3::identity::{
    Caller, EventTarget, Identities, Identity, IdentityKind, KEYS_MAX, NewEventTarget, Policies, UsableKey,
};
use benthic_s3::sal::limits::RECORD_CHANGES_MAX;
use benthic_s3::sal::{Buckets as _, NewBucket, RecordChange, RecordKind, Records as _, Sal};
use benthic_s3::seal::Sealer;
use bytes::Bytes;
use futures::executor::block_on;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// A pool that lets another process work before the operation with a given number.
struct Interrupted {
    inner: Arc<dyn Pool>,
    operations: AtomicU64,
    at: u64,
    interrupt: Box<dyn Fn() + Send + Sync>,
}

impl Interrupted {
    fn count(&self) {
        if self.operations.fetch_add(1, Ordering::SeqCst) == self.at {
            // Another thread, because this one is blocked on a future.
            std::thread::scope(|scope| scope.spawn(|| (self.interrupt)()).join().unwrap());
        }
    }
}

#[async_trait]
impl Pool for Interrupted {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn read(&self, object: &ObjectId, op: ReadOp) -> Result<ReadReply> {
        self.count();
        self.inner.read(object, op).await
    }

    async fn write(&self, object: &ObjectId, op: WriteOp) -> Result<WriteReply> {
        self.count();
        self.inner.write(object, op).await
    }

    async fn exec(&self, object: &ObjectId, call: ClassCall) -> Result<Bytes> {
        self.count();
        self.inner.exec(object, call).await
    }

    async fn list(&self, request: ListRequest) -> Result<ListPage> {
        self.count();
        self.inner.list(request).await
    }
}

fn in_memory() -> Arc<dyn Pool> {
    let store = MemStore::new(Options::default().with_classes(benthic_classes::registry()));
    block_on(store.create_pool("s3")).unwrap();
    block_on(store.open_pool("s3")).unwrap()
}

fn try_open(pool: &Arc<dyn Pool>) -> Result<Identities> {
    let sal = PoolSal::open(Arc::clone(pool), Arc::clone(pool), benthic_s3::Options::default());
    let sal: Arc<dyn Sal> = Arc::new(block_on(sal)?);
    let environment = Environment::default();
    Ok(Identities::new(sal, Some(Sealer::with_key([7; 32], environment.clone())), environment))
}

fn open(pool: &Arc<dyn Pool>) -> Identities {
    try_open(pool).unwrap()
}

type Work = fn(&Identities) -> Result<()>;

fn create(identities: &Identities, kind: IdentityKind, name: &str) -> Result<()> {
    block_on(identities.create_identity(kind, "lab", name, Identity::with_path("/"))).map(drop)
}

/// Does `first` in one process, and `second` in another one, between any two operations of `first`.
/// `check` gets their results and the state after both.
fn interleave(
    prepare: Work,
    (first, second): (Work, Work),
    check: impl Fn((&Result<()>, &Result<()>), &Identities),
) {
    for at in 0.. {
        let pool = in_memory();
        let other = Arc::new(open(&pool));
        prepare(&other).unwrap();
        let answer = Arc::new(Mutex::new(None));
        let (here, there) = (Arc::clone(&answer), Arc::clone(&other));
        let interrupted = Arc::new(Interrupted {
            inner: Arc::clone(&pool),
            operations: AtomicU64::new(u64::MAX / 2),
            at,
            interrupt: Box::new(move || *here.lock().unwrap() = Some(second(&there))),
        });
        let one = open(&(Arc::clone(&interrupted) as Arc<dyn Pool>));
        interrupted.operations.store(0, Ordering::SeqCst);
        let result = first(&one);
        let Some(other_result) = answer.lock().unwrap().take() else {
            assert!(at > 1, "the work has more operations");
            return;
        };
        check((&result, &other_result), &other);
    }
}

fn kind(result: &Result<()>) -> Option<ErrorKind> {
    result.as_ref().err().map(Error::kind)
}

fn remove_account(identities: &Identities) -> Result<()> {
    block_on(identities.remove_account("lab"))
}

#[test]
fn nothing_appears_in_an_account_that_is_removed() {
    let prepare: Work = |identities| block_on(identities.create_account("lab")).map(drop);
    let creations: [Work; 7] = [
        |identities| create(identities, IdentityKind::User, "ada"),
        |identities| create(identities, IdentityKind::Group, "divers"),
        |identities| create(identities, IdentityKind::Role, "reader"),
        |identities| block_on(identities.create_key("lab", "")).map(drop),
        |identities| block_on(identities.create_kms_key("lab", "", None)).map(drop),
        |identities| {
            let text = r#"{"Statement":{"Effect":"Allow","Action":"*","Resource":"*"}}"#;
            block_on(identities.create_policy("lab", ("/", "all"), None, text)).map(drop)
        },
        |identities| {
            let url = "https://idp.example";
            block_on(identities.create_oidc_provider("lab", url, BTreeSet::new(), BTreeSet::new()))
        },
    ];
    for (index, creation) in creations.into_iter().enumerate() {
        let check = |removal: &Result<()>, creation: &Result<()>, identities: &Identities| {
            let account = block_on(identities.account("lab"));
            if removal.is_ok() {
                assert!(creation.is_err(), "creation {index}");
                assert!(account.is_err());
                // A new account is empty.
                block_on(identities.create_account("lab")).unwrap();
                remove_account(identities).unwrap();
            } else {
                assert_eq!(kind(removal), Some(ErrorKind::Conflict));
                assert_eq!(account.unwrap().removal, None);
                // Whoever comes first wins, or nobody.
                assert_eq!(remove_account(identities).is_err(), creation.is_ok(), "creation {index}");
            }
        };
        interleave(prepare, (remove_account, creation), |(one, other), all| check(one, other, all));
        interleave(prepare, (creation, remove_account), |(one, other), all| check(other, one, all));
    }
}

#[test]
fn no_bucket_is_created_in_an_account_that_is_removed() {
    let pool = in_memory();
    let sal = PoolSal::open(Arc::clone(&pool), Arc::clone(&pool), benthic_s3::Options::default());
    let (sal, identities) = (block_on(sal).unwrap(), open(&pool));
    let create = |name: &str, record| {
        let new =
            NewBucket { name: name.to_owned(), owner: "lab".to_owned(), record, ..NewBucket::default() };
        block_on(sal.create_bucket(new)).map(drop)
    };
    block_on(identities.create_account("lab")).unwrap();
    let before = Some(block_on(identities.in_account("lab")).unwrap());
    remove_account(&identities).unwrap();
    assert_eq!(kind(&create("reef", before)), Some(ErrorKind::Unavailable));
    assert_eq!(kind(&block_on(sal.bucket("reef")).map(drop)), Some(ErrorKind::NotFound));
    block_on(identities.create_account("lab")).unwrap();
    let record = Some(block_on(identities.in_account("lab")).unwrap());
    create("reef", record.clone()).unwrap();
    assert_eq!(kind(&create("reef", record)), Some(ErrorKind::AlreadyExists));
    assert_eq!(kind(&remove_account(&identities)), Some(ErrorKind::Conflict));
}

/// Creates a user as a process does whose swap came just before the mark of a removal.
fn create_before_the_mark(pool: &Arc<dyn Pool>, name: &str) {
    let sal = PoolSal::open(Arc::clone(pool), Arc::clone(pool), benthic_s3::Options::default());
    let user = serde_json::to_vec(&Identity::with_path("/")).unwrap();
    let change = RecordChange {
        kind: RecordKind::User,
        name: format!("lab/{name}"),
        expected: None,
        new: Some(Bytes::from(user)),
    };
    block_on(block_on(sal).unwrap().swap_records(&[change])).unwrap();
}

/// Repeats a removal that died after a number of operations, of an account that got a user just
/// before the mark, or of an empty one. Returns whether the removal left its mark, and whether it
/// died at all.
fn repeat_removal(dies_after: u64, has_user: bool) -> (bool, bool) {
    let pool = in_memory();
    let other = open(&pool);
    block_on(other.create_account("lab")).unwrap();
    let plan = FaultPlan::new(dies_after, Last::Done);
    let pools = Pools {
        index: Arc::clone(&pool),
        data: Arc::clone(&pool),
        cold: Arc::clone(&pool),
        store: MemStore::new(Options::default()),
    };
    if let Ok(one) = try_open(&FaultyPool::pools(&pools, &plan).index) {
        let _ = remove_account(&one);
    }
    let account = block_on(other.account("lab"));
    let is_marked = account.as_ref().is_ok_and(|account| account.removal.is_some());
    if is_marked {
        let refused = create(&other, IdentityKind::User, "ada").unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Busy);
        assert!(refused.to_string().contains("`benthic s3 account rm`"), "{refused}");
    }
    if is_marked && has_user {
        create_before_the_mark(&pool, "ada");
        assert_eq!(kind(&remove_account(&other)), Some(ErrorKind::Conflict));
        // The account is in use again.
        assert_eq!(block_on(other.account("lab")).unwrap().removal, None);
        create(&other, IdentityKind::User, "eve").unwrap();
        for name in ["ada", "eve"] {
            block_on(other.remove_identity(IdentityKind::User, "lab", name)).unwrap();
        }
    }
    if account.is_ok() {
        remove_account(&other).unwrap();
    }
    assert_eq!(kind(&remove_account(&other)), Some(ErrorKind::NotFound));
    (is_marked, !plan.has_survived())
}

#[test]
fn a_removal_of_an_account_that_died_is_repeated() {
    for has_user in [false, true] {
        let mut marked = 0;
        for dies_after in 0.. {
            let (is_marked, has_died) = repeat_removal(dies_after, has_user);
            marked += usize::from(is_marked);
            if !has_died {
                break;
            }
        }
        assert!(marked > 0);
    }
}

fn with_user(identities: &Identities) -> Result<()> {
    block_on(identities.create_account("lab"))?;
    create(identities, IdentityKind::Group, "divers")?;
    create(identities, IdentityKind::User, "ada")
}

fn create_key(identities: &Identities) -> Result<()> {
    block_on(identities.create_key("lab", "ada")).map(drop)
}

#[test]
fn no_key_outlives_its_user() {
    let remove: Work = |identities| block_on(identities.remove_identity(IdentityKind::User, "lab", "ada"));
    let check = |removal: &Result<()>, creation: &Result<()>, identities: &Identities| {
        assert_ne!(removal.is_ok(), creation.is_ok(), "{removal:?} {creation:?}");
        let keys = block_on(identities.keys()).unwrap().len();
        assert_eq!(keys, usize::from(creation.is_ok()));
        assert_eq!(block_on(identities.user("lab", "ada")).is_ok(), creation.is_ok());
    };
    interleave(with_user, (remove, create_key), |(one, other), all| check(one, other, all));
    interleave(with_user, (create_key, remove), |(one, other), all| check(other, one, all));
}

#[test]
fn new_names_miss_no_key_and_no_member() {
    let rename_user: Work =
        |identities| block_on(identities.rename_identity(IdentityKind::User, "lab", ("ada", "eve"), None));
    let rename_group: Work = |identities| {
        block_on(identities.rename_identity(IdentityKind::Group, "lab", ("divers", "crew"), None))
    };
    let join: Work = |identities| {
        block_on(identities.change_identity(IdentityKind::User, "lab", "ada", |user| {
            user.groups.insert("divers".to_owned());
            Ok(())
        }))
    };
    let check = |identities: &Identities| {
        let users = block_on(identities.users("lab")).unwrap();
        for (_, key) in block_on(identities.keys()).unwrap() {
            assert!(users.iter().any(|(name, _)| *name == key.user), "{}", key.user);
        }
        let groups = block_on(identities.identities(IdentityKind::Group, "lab")).unwrap();
        for (name, group) in &groups {
            let members = users.iter().filter(|(_, user)| user.groups.contains(name)).count();
            assert_eq!(usize::try_from(group.members), Ok(members), "{name}");
        }
        let named = users.iter().map(|(_, user)| user.groups.len()).sum::<usize>();
        assert_eq!(named, groups.iter().map(|(_, group)| group.members as usize).sum::<usize>());
    };
    let pairs: [(Work, Work); 3] = [(rename_user, create_key), (rename_group, join), (rename_user, join)];
    for (first, second) in pairs.into_iter().flat_map(|(one, other)| [(one, other), (other, one)]) {
        interleave(with_user, (first, second), |(one, other), identities| {
            assert!(one.is_ok() || other.is_ok());
            check(identities);
        });
    }
}

fn look_up(identities: &Identities, access_key: &str) -> UsableKey {
    block_on(identities.look_up_key(access_key, None)).unwrap().unwrap()
}

#[test]
fn a_key_is_valid_while_its_user_gets_another_name() {
    let prepare: Work = |identities| {
        with_user(identities)?;
        create_key(identities)
    };
    let use_key: Work = |identities| {
        let (access_key, _) = block_on(identities.keys())?.remove(0);
        let found = block_on(identities.look_up_key(&access_key, None))?;
        found.map(drop).map_err(|refusal| Error::new(ErrorKind::PermissionDenied, format!("{refusal:?}")))
    };
    let rename: Work =
        |identities| block_on(identities.rename_identity(IdentityKind::User, "lab", ("ada", "eve"), None));
    interleave(prepare, (use_key, rename), |(found, renamed), _| {
        assert!(found.is_ok() && renamed.is_ok(), "{found:?} {renamed:?}");
    });
}

#[test]
fn a_user_keeps_all_but_its_name() {
    let identities = open(&in_memory());
    with_user(&identities).unwrap();
    let text = r#"{"Statement":{"Effect":"Allow","Action":"s3:*","Resource":"*"}}"#;
    block_on(identities.change_identity(IdentityKind::User, "lab", "ada", |user| {
        user.policies = Some(Policies::from([("all".to_owned(), text.to_owned())]));
        user.groups.insert("divers".to_owned());
        Ok(())
    }))
    .unwrap();
    let key = block_on(identities.create_key("lab", "ada")).unwrap();
    let before = block_on(identities.user("lab", "ada")).unwrap();
    let old = look_up(&identities, &key.access_key);
    let rename = |names, path| block_on(identities.rename_identity(IdentityKind::User, "lab", names, path));
    rename(("ada", "eve"), Some("/team/")).unwrap();

    let after = block_on(identities.user("lab", "eve")).unwrap();
    assert_eq!(after, Identity { path: Some("/team/".to_owned()), ..before.clone() });
    let new = look_up(&identities, &key.access_key);
    assert_eq!(new.caller, Caller::User { account: "lab".to_owned(), user: "eve".to_owned() });
    assert_eq!((&new.secret, &new.policies, &new.id), (&old.secret, &old.policies, &old.id));
    // A new user with the old name has nothing of the first one.
    create(&identities, IdentityKind::User, "ada").unwrap();
    let another = block_on(identities.user("lab", "ada")).unwrap();
    assert_ne!(another.id, before.id);
    assert!(another.id.unwrap().starts_with("AIDA"));
    assert!(block_on(identities.keys_of("lab", "ada")).unwrap().is_empty());

    for (names, expected) in [
        (("eve", "ADA"), ErrorKind::AlreadyExists),
        (("eve", "a b"), ErrorKind::InvalidArgument),
        (("missing", "x"), ErrorKind::NotFound),
    ] {
        assert_eq!(kind(&rename(names, None)), Some(expected), "{names:?}");
    }
    rename(("eve", "EVE"), None).unwrap();
    assert_eq!(block_on(identities.user("lab", "EVE")).unwrap(), after);
}

#[test]
fn a_group_keeps_its_users_up_to_a_limit() {
    let identities = open(&in_memory());
    with_user(&identities).unwrap();
    let join = |user: &str| {
        block_on(identities.change_identity(IdentityKind::User, "lab", user, |user| {
            user.groups.insert("divers".to_owned());
            Ok(())
        }))
        .unwrap();
    };
    let rename = |names| block_on(identities.rename_identity(IdentityKind::Group, "lab", names, None));
    join("ada");
    rename(("divers", "crew")).unwrap();
    assert!(block_on(identities.user("lab", "ada")).unwrap().groups.contains("crew"));
    assert_eq!(block_on(identities.identity(IdentityKind::Group, "lab", "crew")).unwrap().members, 1);
    rename(("crew", "divers")).unwrap();
    for number in 0..RECORD_CHANGES_MAX {
        let name = format!("user-{number}");
        create(&identities, IdentityKind::User, &name).unwrap();
        join(&name);
    }
    assert_eq!(kind(&rename(("divers", "crew"))), Some(ErrorKind::LimitExceeded));
    assert_eq!(block_on(identities.identity(IdentityKind::Group, "lab", "divers")).unwrap().members, 129);
}

#[test]
fn users_have_a_limit_of_keys() {
    let identities = open(&in_memory());
    with_user(&identities).unwrap();
    for _ in 0..KEYS_MAX {
        create_key(&identities).unwrap();
    }
    assert_eq!(kind(&create_key(&identities)), Some(ErrorKind::LimitExceeded));
}

#[test]
fn principals_have_the_ids_of_their_time() {
    let identities = open(&in_memory());
    with_user(&identities).unwrap();
    let named = BTreeSet::from([(IdentityKind::User, "lab", "ada")]);
    let ids = || block_on(identities.principal_ids(named.clone()));
    let first = ids().unwrap();
    assert_eq!(first.keys().collect::<Vec<_>>(), ["arn:aws:iam::lab:user/ada"]);
    block_on(identities.remove_identity(IdentityKind::User, "lab", "ada")).unwrap();
    let refused = ids().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotFound);
    assert!(refused.message().contains("there is no user arn:aws:iam::lab:user/ada"), "{refused}");
    create(&identities, IdentityKind::User, "ada").unwrap();
    assert_ne!(ids().unwrap(), first);
    // The records of earlier builds have no ids.
    let old: Identity = serde_json::from_str(r#"{"form":1,"created_ms":5}"#).unwrap();
    assert_eq!(old.id("lab", "ada"), "lab/ada");
}

fn add_client(identities: &Identities, client: &str) -> Result<()> {
    block_on(identities.change_oidc_provider("lab", "idp.example", |provider| {
        provider.client_ids.insert(client.to_owned());
    }))
}

#[test]
fn changes_at_the_same_time_are_both_made() {
    let prepare: Work = |identities| {
        block_on(identities.create_account("lab"))?;
        block_on(identities.create_kms_key("lab", "", None))?;
        let url = "https://idp.example";
        block_on(identities.create_oidc_provider("lab", url, BTreeSet::new(), BTreeSet::new()))
    };
    let rotate: Work = |identities| {
        let (id, _) = block_on(identities.kms_keys())?.remove(0);
        block_on(identities.rotate_kms_key(&id)).map(drop)
    };
    interleave(prepare, (rotate, rotate), |(one, other), identities| {
        assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
        assert_eq!(block_on(identities.kms_keys()).unwrap()[0].1.versions.len(), 3);
    });
    let changes: (Work, Work) =
        (|identities| add_client(identities, "one"), |identities| add_client(identities, "other"));
    interleave(prepare, changes, |(one, other), identities| {
        assert!(one.is_ok() && other.is_ok(), "{one:?} {other:?}");
        assert_eq!(block_on(identities.oidc_provider("lab", "idp.example")).unwrap().client_ids.len(), 2);
    });
}

#[test]
fn topics_have_a_limit_and_targets_of_the_operator_stay() {
    let identities = open(&in_memory());
    block_on(identities.create_account("lab")).unwrap();
    let attributes = BTreeMap::new();
    let new = NewEventTarget { url: "", secret: None, ca: None, broker: None, topic: Some(&attributes) };
    let put =
        |name: &str, found: Option<&EventTarget>| block_on(identities.put_topic("lab", name, found, new));
    let of_operator = NewEventTarget { url: "http://localhost:1/", topic: None, ..new };
    block_on(identities.create_event_target("lab", "operator", of_operator)).unwrap();
    for number in 1..100 {
        put(&format!("topic-{number}"), None).unwrap();
    }
    assert_eq!(kind(&put("topic-100", None)), Some(ErrorKind::LimitExceeded));
    // A known topic can be replaced, unless it has changed.
    let found = block_on(identities.event_target("lab", "topic-1")).unwrap();
    put("topic-1", Some(&found)).unwrap();
    block_on(identities.change_topic("lab", "topic-1", |attributes| {
        attributes.insert("Policy".to_owned(), "{}".to_owned());
    }))
    .unwrap();
    assert_eq!(kind(&put("topic-1", Some(&found))), Some(ErrorKind::Busy));
    block_on(identities.remove_topic("lab", "topic-1")).unwrap();
    assert_eq!(kind(&block_on(identities.remove_topic("lab", "topic-1"))), Some(ErrorKind::NotFound));
    for refused in [
        block_on(identities.remove_topic("lab", "operator")),
        block_on(identities.change_topic("lab", "operator", |_| {})),
    ] {
        assert_eq!(kind(&refused), Some(ErrorKind::PermissionDenied));
    }
    assert!(block_on(identities.event_target("lab", "operator")).unwrap().topic.is_none());
    assert_eq!(kind(&remove_account(&identities)), Some(ErrorKind::Conflict));
}
