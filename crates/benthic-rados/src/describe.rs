//! Libraries of classes in the OSDs: which of them has a class that this build does not know, and what each OSD runs.
//!
//! A class `mydigest` that is not of this build is that of the library `mydigest_1`; `mydigest_2` is that of the library
//! `mydigest_2`, its next wire version. The library is asked ([`DESCRIBE`]) in the OSD that has the object, and its answer
//! is remembered for a while. A class that no library has goes to the OSDs as it is: it is one of Ceph's own. Those of
//! this build come first: `hello` and `lock` are ours, `benthic_1` has them; Ceph's are `ceph.hello` and `ceph.lock`
//! ([`CEPH_CLASS_PREFIX`]).

use crate::errors::c_string;
use crate::ffi::{self, IoCtx, StepOutput};
use crate::in_flight::InFlight;
use crate::pool::lost;
use crate::store::{RadosStore, Shared, ask};
use crate::write::refused;
use benthic_core::error::errno;
use benthic_core::names::{CEPH_CLASS_PREFIX, CEPH_CLASSES};
use benthic_core::{
    Action, ClassCall, ClassInfo, Error, ErrorKind, LibraryInfo, MethodFlags, MethodInfo, ObjectId, Result,
};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// [`benthic_core::DESCRIBE`], as librados takes it.
pub(crate) const DESCRIBE: &CStr = c"benthic.describe";

/// Classes that are remembered.
const CLASSES_MAX: usize = 1_024;
/// What a library answers is much shorter.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// How long it is not asked again whether a library has a class, so that most calls are one round trip. A library may be
/// installed at any time, and an OSD that starts again may load another build of it.
const ANSWER_HOLDS: Duration = Duration::from_secs(60);
/// How long object names are looked for, so that every OSD can be asked.
const SEARCH_LIMIT: Duration = Duration::from_secs(10);

/// The classes that are not of this build, as far as they were asked for.
#[derive(Default)]
pub(crate) struct Libraries(Mutex<HashMap<String, Known>>);

#[derive(Default)]
struct Known {
    /// `None` if no library that was asked has the class.
    found: Option<Arc<Found>>,
    /// When the last question was sent; `None` if it is to be asked again whenever that was.
    asked: Option<Instant>,
}

/// A class, and the library that has it.
pub(crate) struct Found {
    pub library: String,
    pub class: ClassInfo,
}

impl Libraries {
    pub fn get(&self, class: &str) -> Option<Arc<Found>> {
        self.0.lock().get(class)?.found.clone()
    }

    /// The library, class and method of a call; `None` for what no library that was asked has.
    pub fn method(&self, call: &ClassCall) -> Option<(Arc<Found>, MethodFlags)> {
        let found = self.get(&call.class)?;
        let flags = flags(found.method(&call.method)?)?;
        Some((found, flags))
    }

    /// Finds out which library has a class, unless that is known. A method that the library did not have is asked for again.
    pub async fn learn(
        &self,
        in_flight: &Arc<InFlight>,
        context: &Arc<IoCtx>,
        object: &ObjectId,
        class: &str,
        method: Option<&str>,
    ) -> Result<()> {
        if is_of_ceph(class) || !self.is_due(class, method) {
            return Ok(());
        }
        let (library, name) = library_of(class);
        let described = match describe(in_flight, context, object, &library).await {
            // The call itself is refused too, and says it of the right class.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
            described => described?,
        };
        let classes = described.map(|library| library.classes).unwrap_or_default();
        let info = classes.into_iter().find(|candidate| candidate.name == name);
        self.remember(class, info.map(|class| Found { library, class }));
        Ok(())
    }

    /// Whether it is time to ask for a class. Whoever is told so asks; others go on with what is known meanwhile.
    fn is_due(&self, class: &str, method: Option<&str>) -> bool {
        let mut known = self.0.lock();
        let Some(known) = known.get_mut(class) else { return true };
        let lacks = |found: &Arc<Found>| method.is_some_and(|method| found.method(method).is_none());
        if known.asked.is_some_and(|asked| asked.elapsed() < ANSWER_HOLDS)
            && !known.found.as_ref().is_some_and(lacks)
        {
            return false;
        }
        known.asked = Some(Instant::now());
        true
    }

    fn remember(&self, class: &str, found: Option<Found>) {
        let mut known = self.0.lock();
        if known.len() >= CLASSES_MAX {
            known.retain(|_, known| known.found.is_some());
        }
        if known.len() >= CLASSES_MAX {
            known.clear();
        }
        let known = known.entry(class.to_owned()).or_default();
        known.asked = Some(Instant::now());
        // An OSD without the library does not undo what another one said.
        if let Some(found) = found {
            known.found = Some(Arc::new(found));
        }
    }

    /// An OSD did not support a call of this class: perhaps what is known of it is no longer so, and the next call asks
    /// again. Until then it stays, for calls that are on their way.
    pub fn doubt(&self, class: &str) {
        if let Some(known) = self.0.lock().get_mut(class) {
            known.asked = None;
        }
    }
}

impl Found {
    fn method(&self, name: &str) -> Option<&MethodInfo> {
        self.class.methods.iter().find(|method| method.name == name)
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

/// Whether a class is known to be one of Ceph's own, so that no library is asked for it.
fn is_of_ceph(class: &str) -> bool {
    CEPH_CLASSES.contains(&class) || class.starts_with(CEPH_CLASS_PREFIX)
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
async fn describe(
    in_flight: &Arc<InFlight>,
    context: &Arc<IoCtx>,
    object: &ObjectId,
    library: &str,
) -> Result<Option<LibraryInfo>> {
    answer(in_flight, context, object, library, DESCRIBE).await
}

/// The answer to a question that libraries answer, in the OSD that has `object`; `None` if the OSD does not have the
/// library, or the library does not have the method.
pub(crate) async fn answer<T: DeserializeOwned>(
    in_flight: &Arc<InFlight>,
    context: &Arc<IoCtx>,
    object: &ObjectId,
    library: &str,
    method: &CStr,
) -> Result<Option<T>> {
    let (name, class) = (c_string(object.name())?, c_string(library)?);
    let permit = in_flight.enter(0).await?;
    let answer = {
        let mut question = ffi::ReadOp::new(context).keep(permit);
        question.exec(&class, method, &[]);
        context.read(&name, question, false)
    };
    let completed = answer.await.map_err(lost)?;
    match completed.result.saturating_neg() {
        errno::EOPNOTSUPP => Ok(None),
        number if number > 0 => {
            let method = method.to_string_lossy().into_owned();
            let call = ClassCall { class: library.to_owned(), method, input: Vec::new().into() };
            Err(refused(number, &call, Action::Read))
        }
        _ => Ok(completed.buffers.outputs().into_iter().find_map(|output| match output {
            // One of Ceph's own classes may answer anything.
            StepOutput::Exec(output) if output.len() <= ANSWER_BYTES_MAX => {
                serde_json::from_slice(&output).ok()
            }
            _ => None,
        })),
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
        shared.libraries.learn(&shared.in_flight, &context, object, class, None).await?;
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
        let in_flight = &self.shared().in_flight;
        let described = describe(in_flight, &context, &ObjectId::new(name.as_str())?, library).await?;
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

#[cfg(test)]
mod tests {
    use super::{CLASSES_MAX, ClassInfo, DESCRIBE, Found, Libraries, library_of};

    #[test]
    fn the_question_is_the_one_that_libraries_answer() {
        assert_eq!(DESCRIBE.to_str().unwrap(), benthic_core::DESCRIBE);
    }

    fn found() -> Found {
        let class = r#"{"class":"c","version":1,"build":"","summary":"","methods":[{"method":"m","reads":true,
            "writes":false,"result_xattr":null,"summary":"","input":"","output":"","examples":[]}]}"#;
        let class: ClassInfo = serde_json::from_str(class).unwrap();
        Found { library: "c_1".to_owned(), class }
    }

    #[test]
    fn an_answer_holds_until_it_is_doubted_and_stays_meanwhile() {
        let libraries = Libraries::default();
        assert!(libraries.is_due("c", Some("m")));
        libraries.remember("c", None);
        assert!(!libraries.is_due("c", Some("m")), "a miss is remembered");
        libraries.doubt("c");
        assert!(libraries.is_due("c", Some("m")));
        assert!(!libraries.is_due("c", Some("m")), "one asks again, not all");
        libraries.remember("c", Some(found()));
        assert!(!libraries.is_due("c", Some("m")) && !libraries.is_due("c", None));
        assert!(libraries.is_due("c", Some("new")), "a later build may have it");
        libraries.doubt("c");
        libraries.remember("c", None);
        assert!(libraries.get("c").is_some(), "one OSD without the library");
    }

    #[test]
    fn misses_make_room_for_libraries() {
        let libraries = Libraries::default();
        libraries.remember("c", Some(found()));
        for miss in 0..2 * CLASSES_MAX {
            libraries.remember(&miss.to_string(), None);
        }
        assert!(libraries.0.lock().len() <= CLASSES_MAX && libraries.get("c").is_some());
    }

    #[test]
    fn a_class_is_in_the_library_of_its_name_and_version() {
        assert_eq!(library_of("mydigest"), ("mydigest_1".to_owned(), "mydigest"));
        assert_eq!(library_of("mydigest_2"), ("mydigest_2".to_owned(), "mydigest"));
        assert_eq!(library_of("my_digest"), ("my_digest_1".to_owned(), "my_digest"));
        assert_eq!(library_of("a_"), ("a__1".to_owned(), "a_"));
        assert_eq!(library_of("a_1b"), ("a_1b_1".to_owned(), "a_1b"));
    }
}
