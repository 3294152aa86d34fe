//! A library inside an OSD: dispatches calls to its methods, describes the library, counts the
//! calls, and reports failures.

use crate::access::{Caller, OsdObject};
use crate::counts::{CallCounter, GuestCounters};
use crate::failures::RecentFailures;
pub use crate::ffi::RawFunctionCall;
use crate::ffi::{self, Answer, Context, Errno, Failed};
use crate::messages::RecentMessages;
use crate::osd_id;
use benthic_core::error::errno;
use benthic_core::{
    CALLS, CallFailure, ClassCalls, ClassRegistry, Clock, DESCRIBE, Error, FAILURES, FailureReport,
    GuestCost, GuestMethod, LibraryCalls, LibraryFailures, LibraryInfo, Method, MethodFlags, MethodLimits,
    NoObject, Result, Stopwatch, SystemClock, build, call_method,
};
use bytes::Bytes;
use std::ffi::CString;
use std::panic::{self, catch_unwind};
use std::process;
use std::sync::OnceLock;
use std::time::Duration;

/// Environment variable of the OSD that shortens the deadline of methods, in milliseconds, for test
/// clusters. Values other than a number from 1 to the [usual
/// deadline](benthic_core::limits::METHOD_DEADLINE_MS) are ignored.
pub const DEADLINE_VARIABLE: &str = "BENTHIC_METHOD_DEADLINE_MS";

/// The flags of objclass.h.
const CLS_METHOD_RD: i32 = 1;
const CLS_METHOD_WR: i32 = 2;

const LOG_LEVEL_FAILURE: i32 = 5;

/// The methods that every library has, ahead of those of its classes. They have no [`Method`],
/// because they access no object.
const BUILT_IN: [(&str, Answerer); 3] = [
    (DESCRIBE, |library| Ok(library.description.clone())),
    (CALLS, |library| serde_json::to_vec(&library.calls()).map(Bytes::from)),
    (FAILURES, |library| serde_json::to_vec(&library.failures()).map(Bytes::from)),
];

type Answerer = fn(&Library) -> serde_json::Result<Bytes>;

static LIBRARY: OnceLock<Library> = OnceLock::new();

struct Library {
    name: String,
    description: Bytes,
    /// Grouped by class.
    methods: Vec<Entry>,
    limits: MethodLimits,
    clock: SystemClock,
    loaded_unix_ns: u64,
    osd: Option<u32>,
    guests: GuestCounters,
    failures: RecentFailures,
    messages: RecentMessages,
}

/// A method.
struct Entry {
    class: String,
    /// `CLASS.METHOD`.
    name: String,
    method: &'static Method,
    count: CallCounter,
}

/// The name under which a failure is recorded: that of the guest's method if one ran.
struct Callee {
    class: String,
    /// The version of a guest.
    version: Option<String>,
    method: String,
}

impl Callee {
    fn of(entry: &Entry, guest: Option<GuestMethod>) -> Callee {
        match guest {
            Some(GuestMethod { class, version, method }) => Callee { class, version: Some(version), method },
            None => {
                Callee { class: entry.class.clone(), version: None, method: entry.method.name.to_owned() }
            }
        }
    }
}

/// Registers a library with the OSD of this process; [`export!`](crate::export) calls it. On a
/// failure it writes the cause to the OSD's log, and the library has no methods.
pub fn start(name: &str, classes: fn() -> ClassRegistry) {
    // The hook belongs to this library's own copy of the standard library. `call_method` logs the
    // panic's message.
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map_or_else(|| "unknown".to_owned(), ToString::to_string);
        ffi::log(0, &format!("a panic at {place}"));
    }));
    let started = catch_unwind(|| try_start(name, &classes()));
    match started {
        Ok(Ok(())) => {}
        Ok(Err(message)) => ffi::log(0, &format!("{name}: {message}")),
        Err(_) => ffi::log(0, &format!("{name}: the classes panicked while they listed their methods")),
    }
}

fn try_start(name: &str, classes: &ClassRegistry) -> Result<(), String> {
    let library = Library::new(name, classes).map_err(|error| error.to_string())?;
    let no_nul = |error| format!("a name contains a NUL: {error}");
    let mut names = Vec::new();
    for (name, _) in BUILT_IN {
        names.push((CString::new(name).map_err(no_nul)?, CLS_METHOD_WR));
    }
    for entry in &library.methods {
        names.push((CString::new(entry.name.as_str()).map_err(no_nul)?, osd_flags(entry.method.flags)));
    }
    if names.len() > ffi::methods_max() {
        let (methods, max) = (names.len(), ffi::methods_max());
        return Err(format!("too many methods; use several libraries methods={methods} methods_max={max}"));
    }
    LIBRARY.set(library).map_err(|_| "started twice".to_owned())?;
    let library = CString::new(name).map_err(no_nul)?;
    let names: Vec<_> = names.iter().map(|(name, flags)| (name.as_c_str(), *flags)).collect();
    ffi::register::<Calls>(&library, &names).map_err(|Errno(errno)| {
        format!("the OSD refused the library; its file must be called libcls_{name}.so errno={errno}")
    })?;
    ffi::log(0, &format!("loading {name} build={} methods={}", build(), names.len()));
    Ok(())
}

struct Calls;

impl Answer for Calls {
    fn answer(index: usize, context: Context<'_>, input: &[u8]) -> Result<Bytes, Failed> {
        let broken = || Failed::without_output(errno::EREMOTEIO);
        let library = LIBRARY.get().ok_or_else(broken)?;
        if let Some((_, answer)) = BUILT_IN.get(index) {
            return answer(library).map_err(|_| broken());
        }
        let entry = library.methods.get(index - BUILT_IN.len()).ok_or_else(broken)?;
        let mut object = OsdObject::new(context, library.caller(entry));
        let time = Stopwatch::start(&library.clock);
        let outcome = call_method(entry.method, &mut object, &library.clock, library.limits, input);
        library.count_call(entry, object.take_guest(), time.elapsed(), || object.sender(), outcome)
    }
}

/// Answers a call from another library of this OSD.
pub fn function(call: &RawFunctionCall) -> i32 {
    ffi::answer_function(call, |call| {
        let missing = || Failed::without_output(errno::EOPNOTSUPP);
        let library = LIBRARY.get().ok_or_else(missing)?;
        let entry = library.methods.iter().find(|entry| entry.name == call.name);
        let entry =
            entry.filter(|entry| !entry.method.flags.contains(MethodFlags::WRITE)).ok_or_else(missing)?;
        let mut object = NoObject::for_client(call.client);
        let left_ms = u64::try_from(call.time_left.as_millis()).unwrap_or(u64::MAX);
        let limits = MethodLimits { deadline_ms: left_ms.min(library.limits.deadline_ms), ..library.limits };
        let time = Stopwatch::start(&library.clock);
        let outcome = call_method(entry.method, &mut object, &library.clock, limits, call.input);
        let sender = || call.client.map_or_else(|| "unknown".to_owned(), |number| format!("client.{number}"));
        library.count_call(entry, object.take_guest(), time.elapsed(), sender, outcome)
    })
}

impl Library {
    fn new(name: &str, classes: &ClassRegistry) -> Result<Library, Error> {
        let infos = classes.describe();
        let mut methods = Vec::new();
        for class in &infos {
            for method in &class.methods {
                let full_name = format!("{}.{}", class.name, method.name);
                methods.push(Entry {
                    class: class.name.clone(),
                    name: full_name,
                    method: classes.method(&class.name, &method.name)?,
                    count: CallCounter::default(),
                });
            }
        }
        let info = LibraryInfo { library: name.to_owned(), build: build().to_owned(), classes: infos };
        let description = serde_json::to_vec(&info)
            .map_err(|error| Error::internal("the library cannot be described").with_source(error))?;
        let clock = SystemClock;
        Ok(Library {
            name: name.to_owned(),
            description: Bytes::from(description),
            methods,
            limits: method_limits(std::env::var(DEADLINE_VARIABLE).ok().as_deref()),
            loaded_unix_ns: clock.unix_ns(),
            clock,
            osd: osd_id::of_this_process(),
            guests: GuestCounters::default(),
            failures: RecentFailures::default(),
            messages: RecentMessages::default(),
        })
    }

    fn caller<'a>(&'a self, entry: &'a Entry) -> Caller<'a> {
        let (library, method) = (&self.name, entry.method.name);
        Caller { library, class: &entry.class, method, messages: &self.messages }
    }

    /// Counts a call that has ended: under the name of the guest, if one ran.
    fn count_call(
        &self,
        entry: &Entry,
        guest: Option<(GuestMethod, GuestCost)>,
        time: Duration,
        sender: impl FnOnce() -> String,
        outcome: Result<Bytes>,
    ) -> Result<Bytes, Failed> {
        match &guest {
            Some((method, cost)) => self.guests.add(method.clone(), &outcome, time, *cost),
            None => entry.count.add(&outcome, time),
        }
        outcome.map_err(|error| {
            let callee = Callee::of(entry, guest.map(|(method, _)| method));
            // The message may quote data, so it must not reach the log.
            let row = error.kind().row();
            let (library, Callee { class, method, .. }) = (&self.name, &callee);
            let line = format!("{library} {class}.{method}: failed kind={} errno={}", row.name, row.errno);
            ffi::log(LOG_LEVEL_FAILURE, &line);
            self.fail(callee, sender(), &error)
        })
    }

    /// Records a failed call, and reports it to the caller.
    fn fail(&self, Callee { class, version, method }: Callee, client: String, error: &Error) -> Failed {
        let row = error.kind().row();
        self.failures.add(CallFailure {
            unix_ms: self.clock.unix_ns() / 1_000_000,
            class,
            version,
            method,
            client,
            kind: row.name.to_owned(),
            message: error.message().to_owned(),
            times: 1,
        });
        let report = serde_json::to_vec(&FailureReport::new(error, self.osd)).unwrap_or_default();
        Failed { errno: Errno(row.errno), output: report.into() }
    }

    fn failures(&self) -> LibraryFailures {
        LibraryFailures {
            library: self.name.clone(),
            build: build().to_owned(),
            osd: self.osd,
            failures: self.failures.read(),
            messages: self.messages.read(),
        }
    }

    fn calls(&self) -> LibraryCalls {
        let of_class = |entries: &[Entry]| ClassCalls {
            name: entries[0].class.clone(),
            version: None,
            methods: entries.iter().map(|entry| entry.count.read(entry.method.name)).collect(),
        };
        let own = self.methods.chunk_by(|a, b| a.class == b.class).map(of_class);
        LibraryCalls {
            library: self.name.clone(),
            build: build().to_owned(),
            process: format!("{:x}-{:x}", process::id(), self.loaded_unix_ns),
            loaded_unix_s: self.loaded_unix_ns / 1_000_000_000,
            loaded_ms_ago: self.clock.monotonic_ms(),
            classes: own.chain(self.guests.read()).collect(),
        }
    }
}

fn method_limits(deadline_ms: Option<&str>) -> MethodLimits {
    let usual = MethodLimits::default();
    let shorter = deadline_ms.and_then(|value| value.parse().ok());
    match shorter {
        Some(deadline_ms) if (1..=usual.deadline_ms).contains(&deadline_ms) => {
            MethodLimits { deadline_ms, ..usual }
        }
        _ => usual,
    }
}

fn osd_flags(flags: MethodFlags) -> i32 {
    let flag = |ours, osds| if flags.contains(ours) { osds } else { 0 };
    flag(MethodFlags::READ, CLS_METHOD_RD) | flag(MethodFlags::WRITE, CLS_METHOD_WR)
}

#[cfg(test)]
#[path = "library_tests.rs"]
mod tests;
