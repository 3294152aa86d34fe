//! Finds the library in the OSDs that holds a class which is not in this build.
//!
//! A class `mydigest` that is not in this build belongs to the library `mydigest_1`; its next wire
//! version `mydigest_2` belongs to the library `mydigest_2`. The client asks the library
//! ([`DESCRIBE`]) in the OSD that stores the object, and caches the answer. If no library has the
//! class, the name goes to the OSDs unchanged: the class is one of Ceph's own. Classes of this
//! build take precedence: `hello` and `lock` are ours, in `benthic_1`; Ceph's are `ceph.hello` and
//! `ceph.lock` ([`CEPH_CLASS_PREFIX`]).

use crate::errors::{c_string, lost};
use crate::ffi::{self, IoCtx, StepOutput};
use crate::in_flight::InFlight;
use crate::write::refusal;
use benthic_class_names::{CEPH_CLASS_PREFIX, CEPH_CLASSES};
use benthic_core::error::errno;
use benthic_core::{
    Action, ClassCall, ClassInfo, Clock, Error, ErrorKind, LibraryInfo, MethodFlags, MethodInfo, ObjectId,
    Result,
};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Arc;
use std::time::Duration;

/// [`benthic_core::DESCRIBE`] as a C string for librados.
pub(crate) const DESCRIBE: &CStr = c"benthic.describe";

const CLASSES_MAX: usize = 1_024;
/// Limit of an answer; libraries' answers are much shorter.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// Limit of the attempts to ask an OSD. To an OSD, a question is a write
/// ([`benthic_core::DESCRIBE`]). If a placement group is split or gets other OSDs while a write is
/// in progress, the client sends the write again, and the OSD repeats the status from its log,
/// without the output.
const ATTEMPTS_MAX: usize = 3;
/// Age at which the client refreshes a cache entry. The cache makes most calls one round trip. A
/// library may be installed at any time, and an OSD that restarts may load another build of it.
const CACHE_TTL: Duration = Duration::from_secs(60);

/// A cache of the libraries of classes that are not in this build.
pub(crate) struct Libraries {
    clock: Arc<dyn Clock>,
    cache: Mutex<HashMap<String, CachedClass>>,
}

#[derive(Default)]
struct CachedClass {
    /// `None` if no OSD has reported a library with the class.
    found: Option<Arc<LibraryClass>>,
    /// Monotonic time of the last query; `None` if the entry is stale at any age.
    refreshed_at: Option<Duration>,
}

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

    /// The library of a call and the flags of its method; `None` if no cached library has the
    /// method.
    pub fn method(&self, call: &ClassCall) -> Option<(Arc<LibraryClass>, MethodFlags)> {
        let found = self.get(&call.class)?;
        let flags = flags(found.method(&call.method)?)?;
        Some((found, flags))
    }

    /// Looks up the library of a class and caches it. Asks again if the cached library lacks
    /// `method`.
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
            // The call itself is refused too, and its error names the right class.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => None,
            described => described?,
        };
        let classes = described.map(|library| library.classes).unwrap_or_default();
        let info = classes.into_iter().find(|candidate| candidate.name == name);
        self.insert(class, info.map(|class| LibraryClass { library, class }));
        Ok(())
    }

    /// Whether the caller must refresh the entry of a class. Only one caller refreshes an entry;
    /// meanwhile the others use the old one.
    fn begin_refresh(&self, class: &str, method: Option<&str>) -> bool {
        let now = self.clock.monotonic();
        let mut cache = self.cache.lock();
        let Some(cached) = cache.get_mut(class) else { return true };
        let lacks = |found: &Arc<LibraryClass>| method.is_some_and(|method| found.method(method).is_none());
        if cached.refreshed_at.is_some_and(|refreshed_at| now.saturating_sub(refreshed_at) < CACHE_TTL)
            && !cached.found.as_ref().is_some_and(lacks)
        {
            return false;
        }
        cached.refreshed_at = Some(now);
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
        cached.refreshed_at = Some(now);
        // An OSD without the library does not invalidate the answer of another OSD.
        if let Some(found) = found {
            cached.found = Some(Arc::new(found));
        }
    }

    /// Marks the entry of a class as stale after an OSD did not support a call to it. The next call
    /// refreshes the entry. Until then the entry serves calls that are in progress.
    pub fn invalidate(&self, class: &str) {
        if let Some(cached) = self.cache.lock().get_mut(class) {
            cached.refreshed_at = None;
        }
    }
}

impl LibraryClass {
    fn method(&self, name: &str) -> Option<&MethodInfo> {
        self.class.methods.iter().find(|method| method.name == name)
    }
}

/// `None` for a method that neither reads nor writes: no OSD would call it.
fn flags(method: &MethodInfo) -> Option<MethodFlags> {
    match (method.reads, method.writes) {
        (true, true) => Some(MethodFlags::READ_WRITE),
        (true, false) => Some(MethodFlags::READ),
        (false, true) => Some(MethodFlags::WRITE),
        (false, false) => None,
    }
}

/// Whether a class is one of Ceph's own, which needs no library.
fn is_of_ceph(class: &str) -> bool {
    CEPH_CLASSES.contains(&class) || class.starts_with(CEPH_CLASS_PREFIX)
}

/// The library of a class that is not in this build, and the class's name inside that library.
fn library_of(class: &str) -> (String, &str) {
    match class.rsplit_once('_') {
        Some((name, version)) if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) => {
            (class.to_owned(), name)
        }
        _ => (format!("{class}_1"), class),
    }
}

/// The description that a library gives of itself in the OSD that stores `object`, which need not
/// exist. `None` if the OSD does not have the library.
pub(crate) async fn describe(
    in_flight: &Arc<InFlight>,
    context: &Arc<IoCtx>,
    object: &ObjectId,
    library: &str,
) -> Result<Option<LibraryInfo>> {
    answer(in_flight, context, object, library, DESCRIBE).await
}

/// Calls a query method of a library in the OSD that stores `object`, and parses the answer. `None`
/// if the OSD does not have the library, or the library does not have the method.
///
/// # Errors
/// Those of the call; `Unavailable` if the OSD answers repeatedly without the method's output.
pub(crate) async fn answer<T: DeserializeOwned>(
    in_flight: &Arc<InFlight>,
    context: &Arc<IoCtx>,
    object: &ObjectId,
    library: &str,
    method: &CStr,
) -> Result<Option<T>> {
    let (name, class) = (c_string(object.name())?, c_string(library)?);
    for _ in 0..ATTEMPTS_MAX {
        let permit = in_flight.enter(0, context.address(object)).await?;
        let answer = {
            let mut question = ffi::ReadOp::new(context).with_permit(permit);
            question.exec(&class, method, &[]);
            context.read(&name, question, false, None)
        };
        let completed = answer.await.map_err(lost)?;
        match completed.result.saturating_neg() {
            errno::EOPNOTSUPP => return Ok(None),
            number if number > 0 => {
                let method = method.to_string_lossy().into_owned();
                let call = ClassCall { class: library.to_owned(), method, input: Vec::new().into() };
                return Err(refusal(number, &call, Action::Read));
            }
            _ => {}
        }
        let mut outputs = completed.buffers.outputs().into_iter();
        let output = outputs.find_map(|output| match output {
            StepOutput::Exec(output) if !output.is_empty() => Some(output),
            _ => None,
        });
        if let Some(output) = output {
            // One of Ceph's own classes may return any bytes.
            let is_ours = output.len() <= ANSWER_BYTES_MAX;
            return Ok(is_ours.then(|| serde_json::from_slice(&output).ok()).flatten());
        }
    }
    let message = "the OSD called the method, but did not return its output";
    Err(Error::unavailable(message).with("library", library))
}

#[cfg(test)]
#[path = "libraries_tests.rs"]
mod tests;
