//! Libraries of classes in the OSDs: which of them has a class that this build does not know, and what each OSD runs.
//!
//! A class `mydigest` that is not of this build is that of the library `mydigest_1`; `mydigest_2` is that of the library
//! `mydigest_2`, its next wire version. The library is asked once ([`DESCRIBE`]), in the OSD that has the object.
//! A class that no library has goes to the OSDs as it is: it is one of Ceph's own.

use crate::errors::c_string;
use crate::ffi::IoCtx;
use crate::read;
use crate::store::{RadosStore, Shared, command};
use benthic_core::names::CEPH_CLASSES;
use benthic_core::{
    ClassCall, ClassInfo, DESCRIBE, Error, ErrorKind, LibraryInfo, MethodFlags, MethodInfo, ObjectId, ReadOp,
    ReadOutput, Result,
};
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Classes that are remembered.
const CLASSES_MAX: usize = 1_024;
/// How long object names are looked for, so that every OSD can be asked.
const SEARCH_LIMIT: Duration = Duration::from_secs(10);

/// The classes of other people's libraries, as far as they were asked for. Only what was found is remembered: a library
/// may be installed at any time, and one that was loaded stays.
#[derive(Default)]
pub(crate) struct Libraries(Mutex<HashMap<String, Arc<Found>>>);

/// A class, and the library that has it.
pub(crate) struct Found {
    pub library: String,
    pub class: ClassInfo,
}

impl Libraries {
    pub fn get(&self, class: &str) -> Option<Arc<Found>> {
        self.0.lock().get(class).cloned()
    }

    /// The library, class and method of a call; `None` for what no library that was asked has.
    pub fn method(&self, call: &ClassCall) -> Option<(Arc<Found>, MethodFlags)> {
        let found = self.get(&call.class)?;
        let flags = flags(found.class.methods.iter().find(|method| method.name == call.method)?)?;
        Some((found, flags))
    }

    /// Finds out which library has a class, unless that is known.
    pub async fn learn(&self, context: &Arc<IoCtx>, object: &ObjectId, class: &str) -> Result<()> {
        if CEPH_CLASSES.contains(&class) || self.get(class).is_some() {
            return Ok(());
        }
        let (library, name) = library_of(class);
        let described = match describe(context, object, &library).await {
            // The call itself is refused too, and says it of the right class.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(()),
            described => described?,
        };
        let classes = described.map(|library| library.classes).unwrap_or_default();
        if let Some(info) = classes.into_iter().find(|candidate| candidate.name == name) {
            let mut known = self.0.lock();
            if known.len() >= CLASSES_MAX {
                known.clear();
            }
            known.insert(class.to_owned(), Arc::new(Found { library, class: info }));
        }
        Ok(())
    }
}

/// `None` for a method that no OSD would call.
fn flags(method: &MethodInfo) -> Option<MethodFlags> {
    match (method.reads, method.writes) {
        (true, true) => Some(MethodFlags::READ_WRITE),
        (true, false) => Some(MethodFlags::READ),
        (false, true) => Some(MethodFlags::WRITE),
        (false, false) => None,
    }
}

/// The library that has a class which is not of this build, and what the class is called in it.
fn library_of(class: &str) -> (String, &str) {
    match class.rsplit_once('_') {
        Some((name, version)) if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) => {
            (class.to_owned(), name)
        }
        _ => (format!("{class}_1"), class),
    }
}

/// What a library says about itself in the OSD that has `object`, which need not be there; `None` if the OSD does not
/// have the library.
async fn describe(context: &Arc<IoCtx>, object: &ObjectId, library: &str) -> Result<Option<LibraryInfo>> {
    let (library, method) = (c_string(library)?, c_string(DESCRIBE)?);
    let call = ClassCall { class: String::new(), method: String::new(), input: Vec::new().into() };
    let op = ReadOp { guards: Vec::new(), steps: vec![call.into()] };
    let plan = read::Plan::new(&op, |_| Ok((library.clone(), method.clone())))?;
    let answer = context.read(&c_string(object.name())?, plan.build(context), false);
    let completed =
        answer.await.map_err(|_| Error::new(ErrorKind::Internal, "librados dropped an operation"))?;
    match read::reply(&plan, completed, false) {
        Ok(reply) => match reply.outputs.as_slice() {
            // One of Ceph's own classes may answer anything.
            [ReadOutput::Exec(output)] => Ok(serde_json::from_slice(output).ok()),
            _ => Ok(None),
        },
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error),
    }
}

/// An OSD of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Osd {
    /// N of `osd.N`.
    pub id: i64,
    /// Whether the monitors take it for running.
    pub up: bool,
    /// A pool, and the name of an object that this OSD would have; `None` if it is down, or none was found: it leads no
    /// placement group of a replicated pool.
    pub place: Option<(String, String)>,
}

impl RadosStore {
    /// A class of somebody's library, as the OSD that has `object` describes it, by the name that it was asked for; `None`
    /// if it is a class of this build, one of Ceph's own, or nowhere.
    ///
    /// # Errors
    /// `NotFound` for a missing pool; `Unavailable` if no OSD answers in time.
    pub async fn class(&self, pool: &str, object: &ObjectId, class: &str) -> Result<Option<ClassInfo>> {
        let shared = self.shared();
        if shared.class_names.contains(class) {
            return Ok(None);
        }
        let context = self.namespace(pool, object.namespace()).await?;
        shared.libraries.learn(&context, object, class).await?;
        let found = shared.libraries.get(class);
        Ok(found.map(|found| ClassInfo { name: class.to_owned(), ..found.class.clone() }))
    }

    /// All OSDs, by number. Takes about one command to the monitors for each, and 10 s at most beside a monitor's answer.
    ///
    /// # Errors
    /// `Unavailable` if no monitor answers in time, `PermissionDenied` if the client may not ask them.
    pub async fn osds(&self) -> Result<Vec<Osd>> {
        self.run(osds).await.map_err(|error| error.with_op("list OSDs"))
    }

    /// What a library says about itself in one OSD; `None` if the OSD does not have it.
    ///
    /// # Errors
    /// `PermissionDenied` if the client may not call methods, or the OSD may not load the library;
    /// `Unavailable` if the OSD has no [`place`](Osd::place), does not answer in time, or another one answered for it.
    pub async fn library_on(&self, osd: &Osd, library: &str) -> Result<Option<LibraryInfo>> {
        let unavailable = |message: &str| {
            Error::new(ErrorKind::Unavailable, message).with("osd", osd.id).with("library", library)
        };
        let (pool, name) = match &osd.place {
            Some((pool, name)) => (pool.clone(), name.clone()),
            None if osd.up => return Err(unavailable("it leads no placement group of a replicated pool")),
            None => return Err(unavailable("it is down")),
        };
        let context = self.namespace(&pool, "").await?;
        let described = describe(&context, &ObjectId::new(name.as_str())?, library).await?;
        // If it went down meanwhile, the next OSD answered.
        let now = self.run(move |shared| primary(shared, &pool, &name)).await?;
        if now != Some(osd.id) {
            return Err(unavailable("it went down, or lost its placement groups"));
        }
        Ok(described)
    }
}

#[derive(Deserialize)]
struct Dump {
    osds: Vec<DumpedOsd>,
    pools: Vec<DumpedPool>,
}

#[derive(Deserialize)]
struct DumpedOsd {
    osd: i64,
    up: u8,
}

#[derive(Deserialize)]
struct DumpedPool {
    pool_name: String,
    #[serde(rename = "type")]
    kind: u32,
}

/// `type` of a replicated pool. Erasure-coded ones run no methods that read.
const REPLICATED: u32 = 1;

#[derive(Deserialize)]
struct Mapped {
    acting_primary: i64,
}

fn osds(shared: &Shared) -> Result<Vec<Osd>> {
    let dump: Dump = ask(shared, &serde_json::json!({ "prefix": "osd dump", "format": "json" }))?;
    let mut osds: BTreeMap<i64, Osd> =
        dump.osds.iter().map(|osd| (osd.osd, Osd { id: osd.osd, up: osd.up == 1, place: None })).collect();
    let pools: Vec<&str> = dump
        .pools
        .iter()
        .filter(|pool| pool.kind == REPLICATED)
        .map(|pool| pool.pool_name.as_str())
        .collect();
    let mut unplaced = osds.values().filter(|osd| osd.up).count();
    // Names spread over the placement groups by chance: with so many, one that leads any is hardly missed.
    let names_max = 64 + 16 * osds.len();
    let began = Instant::now();
    for index in 0..if pools.is_empty() { 0 } else { names_max } {
        if unplaced == 0 || began.elapsed() > SEARCH_LIMIT {
            break;
        }
        let (pool, name) = (pools[index % pools.len()], format!("benthic.describe.{index}"));
        let Some(primary) = primary(shared, pool, &name)? else { continue };
        if let Some(osd) = osds.get_mut(&primary).filter(|osd| osd.up && osd.place.is_none()) {
            osd.place = Some((pool.to_owned(), name));
            unplaced -= 1;
        }
    }
    Ok(osds.into_values().collect())
}

/// The OSD that leads the placement group of an object; `None` if none does now.
fn primary(shared: &Shared, pool: &str, name: &str) -> Result<Option<i64>> {
    let question = serde_json::json!({ "prefix": "osd map", "pool": pool, "object": name, "format": "json" });
    let mapped: Mapped = ask(shared, &question)?;
    Ok((mapped.acting_primary >= 0).then_some(mapped.acting_primary))
}

fn ask<T: for<'de> Deserialize<'de>>(shared: &Shared, question: &serde_json::Value) -> Result<T> {
    let (answer, _) = command(shared, &question.to_string())?;
    serde_json::from_slice(&answer).map_err(|error| {
        Error::new(ErrorKind::Internal, "the monitors' answer is not understood").with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::library_of;

    #[test]
    fn a_class_is_in_the_library_of_its_name_and_version() {
        assert_eq!(library_of("mydigest"), ("mydigest_1".to_owned(), "mydigest"));
        assert_eq!(library_of("mydigest_2"), ("mydigest_2".to_owned(), "mydigest"));
        assert_eq!(library_of("my_digest"), ("my_digest_1".to_owned(), "my_digest"));
        assert_eq!(library_of("a_"), ("a__1".to_owned(), "a_"));
        assert_eq!(library_of("a_1b"), ("a_1b_1".to_owned(), "a_1b"));
    }
}
