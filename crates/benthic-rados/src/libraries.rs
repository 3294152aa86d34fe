//! Libraries of classes in the OSDs: which of them has a class that this build does not know.
//!
//! A class `mydigest` that is not of this build is that of the library `mydigest_1`; `mydigest_2` is that of the library
//! `mydigest_2`, its next wire version. The library is asked ([`DESCRIBE`]) in the OSD that has the object, and its answer
//! is remembered for a while. A class that no library has goes to the OSDs as it is: it is one of Ceph's own. Those of
//! this build come first: `hello` and `lock` are ours, `benthic_1` has them; Ceph's are `ceph.hello` and `ceph.lock`
//! ([`CEPH_CLASS_PREFIX`]).

use crate::errors::{c_string, lost};
use crate::ffi::{self, IoCtx, StepOutput};
use crate::in_flight::InFlight;
use crate::write::refusal;
use benthic_class_names::{CEPH_CLASS_PREFIX, CEPH_CLASSES};
use benthic_core::error::errno;
use benthic_core::{
    Action, ClassCall, ClassInfo, Clock, ErrorKind, LibraryInfo, MethodFlags, MethodInfo, ObjectId, Result,
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Arc;
use std::time::Duration;

/// [`benthic_core::DESCRIBE`], as librados takes it.
pub(crate) const DESCRIBE: &CStr = c"benthic.describe";

/// Limit of cached classes.
const CLASSES_MAX: usize = 1_024;
/// Limit of an answer; those of libraries are much shorter.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Age at which a cache entry is refreshed, so that most calls are one round trip. A library may be installed at any time, and
/// an OSD that starts again may load another build of it.
const CACHE_TTL: Duration = Duration::from_secs(60);

/// A cache of the libraries of classes that are not of this build.
pub(crate) struct Libraries {
    clock: Arc<dyn Clock>,
    cache: Mutex<HashMap<String, CachedClass>>,
}

#[derive(Default)]
struct CachedClass {
    /// `None` if no library that was asked has the class.
    found: Option<Arc<LibraryClass>>,
    /// Monotonic time of the last question; `None` if the entry is stale whatever its age.
    asked_at: Option<Duration>,
}

/// A class, and the library that has it.
pub(crate) struct LibraryClass {
    pub library: String,
    pub class: ClassInfo,
}

impl Libraries {
    pub fn new(clock: Arc<dyn Clock>) -> Libraries {
        Libraries { clock, cache: Mutex::default() }
    }

    pub fn get(&self, class: &str) -> Option<Arc<LibraryClass>> {
        self.cache.lock().get(class)?.found.clone()
    }

    /// The library, class and method of a call; `None` for what no library that was asked has.
    pub fn method(&self, call: &ClassCall) -> Option<(Arc<LibraryClass>, MethodFlags)> {
        let found = self.get(&call.class)?;
        let flags = flags(found.method(&call.method)?)?;
        Some((found, flags))
    }

    /// Finds the library of a class and caches it. A method that the cached library did not have is asked for again.
    pub async fn find(
        &self,
        in_flight: &Arc<InFlight>,
        context: &Arc<IoCtx>,
        object: &ObjectId,
        class: &str,
        method: Option<&str>,
    ) -> Result<()> {
        if is_of_ceph(class) || !self.begin_refresh(class, method) {
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
        self.insert(class, info.map(|class| LibraryClass { library, class }));
        Ok(())
    }

    /// Whether the caller has to ask for a class. Only one caller is told to refresh an entry; others use the old one meanwhile.
    fn begin_refresh(&self, class: &str, method: Option<&str>) -> bool {
        let now = self.clock.monotonic();
        let mut cache = self.cache.lock();
        let Some(cached) = cache.get_mut(class) else { return true };
        let lacks = |found: &Arc<LibraryClass>| method.is_some_and(|method| found.method(method).is_none());
        if cached.asked_at.is_some_and(|asked_at| now.saturating_sub(asked_at) < CACHE_TTL)
            && !cached.found.as_ref().is_some_and(lacks)
        {
            return false;
        }
        cached.asked_at = Some(now);
        true
    }

    fn insert(&self, class: &str, found: Option<LibraryClass>) {
        let now = self.clock.monotonic();
        let mut cache = self.cache.lock();
        if cache.len() >= CLASSES_MAX {
            cache.retain(|_, cached| cached.found.is_some());
        }
        if cache.len() >= CLASSES_MAX {
            cache.clear();
        }
        let cached = cache.entry(class.to_owned()).or_default();
        cached.asked_at = Some(now);
        // An OSD without the library does not undo what another one said.
        if let Some(found) = found {
            cached.found = Some(Arc::new(found));
        }
    }

    /// Marks the entry of a class as stale, after an OSD did not support a call of it: the next call asks again. Until then the
    /// entry serves calls that are on their way.
    pub fn invalidate(&self, class: &str) {
        if let Some(cached) = self.cache.lock().get_mut(class) {
            cached.asked_at = None;
        }
    }
}

impl LibraryClass {
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

/// Whether a class is one of Ceph's own, so that no library is asked for it.
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
pub(crate) async fn describe(
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
            Err(refusal(number, &call, Action::Read))
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

#[cfg(test)]
mod tests {
    use super::{CLASSES_MAX, ClassInfo, DESCRIBE, Libraries, LibraryClass, library_of};
    use benthic_core::ManualClock;
    use std::sync::Arc;

    #[test]
    fn the_question_is_the_one_that_libraries_answer() {
        assert_eq!(DESCRIBE.to_str().unwrap(), benthic_core::DESCRIBE);
    }

    fn libraries() -> Libraries {
        Libraries::new(Arc::new(ManualClock::default()))
    }

    fn found() -> LibraryClass {
        let class = r#"{"class":"c","version":1,"build":"","summary":"","methods":[{"method":"m","reads":true,
            "writes":false,"result_xattr":null,"summary":"","input":"","output":"","examples":[]}]}"#;
        let class: ClassInfo = serde_json::from_str(class).unwrap();
        LibraryClass { library: "c_1".to_owned(), class }
    }

    #[test]
    fn an_entry_holds_until_it_is_invalidated_and_serves_meanwhile() {
        let libraries = libraries();
        assert!(libraries.begin_refresh("c", Some("m")));
        libraries.insert("c", None);
        assert!(!libraries.begin_refresh("c", Some("m")), "a miss is remembered");
        libraries.invalidate("c");
        assert!(libraries.begin_refresh("c", Some("m")));
        assert!(!libraries.begin_refresh("c", Some("m")), "one asks again, not all");
        libraries.insert("c", Some(found()));
        assert!(!libraries.begin_refresh("c", Some("m")) && !libraries.begin_refresh("c", None));
        assert!(libraries.begin_refresh("c", Some("new")), "a later build may have it");
        libraries.invalidate("c");
        libraries.insert("c", None);
        assert!(libraries.get("c").is_some(), "one OSD without the library");
    }

    #[test]
    fn misses_make_room_for_libraries() {
        let libraries = libraries();
        libraries.insert("c", Some(found()));
        for miss in 0..2 * CLASSES_MAX {
            libraries.insert(&miss.to_string(), None);
        }
        assert!(libraries.cache.lock().len() <= CLASSES_MAX && libraries.get("c").is_some());
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
