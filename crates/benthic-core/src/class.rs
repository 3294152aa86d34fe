//! Classes: code that runs beside the objects. The same source is linked into the embedded engine
//! and into the library that ceph-osd loads.

use crate::{Error, MethodContext, Result, build};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::BitOr, sync::Arc};

/// The access that a method declares: reads, writes or both. An OSD rejects a method without flags.
/// Undeclared access fails the operation with `ClassFailed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodFlags(u8);

impl MethodFlags {
    /// The method reads the object. On a missing object the engine does not call it and returns
    /// `NotFound`.
    pub const READ: MethodFlags = MethodFlags(1);
    /// The method changes the object and returns nothing to the caller.
    pub const WRITE: MethodFlags = MethodFlags(2);
    /// The method reads and changes the object and returns nothing to the caller.
    pub const READ_WRITE: MethodFlags = MethodFlags(3);

    /// Returns true if all of `flags` are declared.
    pub fn contains(self, flags: MethodFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The flags as two bits: 1 for read, 2 for write.
    pub fn bits(self) -> u8 {
        self.0
    }
}

impl BitOr for MethodFlags {
    type Output = MethodFlags;

    fn bitor(self, other: MethodFlags) -> MethodFlags {
        MethodFlags(self.0 | other.0)
    }
}

/// The place of a method's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodResult {
    /// The method only changes the object.
    Nothing,
    /// The method's output. A write method cannot use it, because its output is dropped.
    Output,
    /// The named attribute of the object, which the caller reads after the call.
    Xattr(&'static str),
}

/// One method of a class: its code and its documentation for callers.
///
/// A method that clients may retry must be **idempotent**, because an OSD may run it more than
/// once. It returns errors of the [table](crate::error::ERROR_TABLE). It starts no threads and
/// keeps no state between calls.
#[derive(Debug)]
pub struct Method {
    /// Unique in the class.
    pub name: &'static str,
    pub flags: MethodFlags,
    /// Maps the input to the output. The output of a method that writes is ignored.
    pub run: fn(&mut MethodContext<'_>, &[u8]) -> Result<Vec<u8>>,
    pub result: MethodResult,
    /// One line for users.
    pub summary: &'static str,
    pub input: &'static str,
    pub output: &'static str,
    pub examples: &'static [&'static str],
}

/// A class: a named set of methods.
pub trait Class: Send + Sync {
    /// The name, unique in a store.
    fn name(&self) -> &'static str;
    /// The version of the interface. It increases when the meaning of a method changes.
    fn version(&self) -> u32;
    fn summary(&self) -> &'static str;
    fn methods(&self) -> &'static [Method];
}

/// The method that describes a class library. It takes no input and returns a [`LibraryInfo`] as
/// JSON. Every class library has it.
///
/// The method declares `WRITE` but writes nothing. The reason: an OSD does not call a read-only
/// method on a missing object, and an OSD of a cluster need not have any object. With the `WRITE`
/// flag an OSD runs the method for any object name, creates nothing, and returns the output as it
/// does for a read. A client therefore calls it in a *read* operation. The caller needs the
/// capability to call methods, `x`; `allow rx` is enough. The OSD logs every call in the placement
/// group's log on all replicas, as for a write, so a call takes as long as a small write.
///
/// ```json
/// {"library":"benthic_1","build":"0.1.0","classes":[{"class":"hello","version":1,"build":"0.1.0","summary":"…",
///  "methods":[{"method":"say","reads":true,"writes":false,"result_xattr":null,"summary":"…","input":"…",
///              "output":"…","examples":["Ada"]}]}]}
/// ```
pub const DESCRIBE: &str = "benthic.describe";

/// The method that returns a class library's call counters. It takes no input and returns a
/// [`LibraryCalls`] as JSON. A client calls it as it calls [`DESCRIBE`]: with any object name and
/// the capability `x`.
///
/// The counters belong to one OSD process. They start at 0 when the process loads the library. They
/// count every run of a method, including runs that fail, panic or miss the deadline. They do not
/// count calls that the OSD rejects before they reach the library (missing capability, unknown
/// method, missing object), and they do not count [`DESCRIBE`] and this method. A library built
/// before the counters existed lacks the method: `Unsupported`.
///
/// ```json
/// {"library":"benthic_1","build":"0.1.0","process":"1f3a-18a9c0ffee123456","loaded_unix_s":1790000000,
///  "loaded_ms_ago":61234,"classes":[{"class":"hello","methods":[{"method":"say","calls":12,"failures":1,
///  "faults":0,"busy_us":340,"fuel":0,"memory_bytes_max":0}]}]}
/// ```
///
/// A library that runs guests, such as WebAssembly modules, also counts their methods: a class for
/// each version of each guest, with the methods that were called. It keeps the latest 1,024
/// methods.
pub const CALLS: &str = "benthic.calls";

/// The call counters of a class library in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryCalls {
    /// NAME of `libcls_NAME.so`.
    pub library: String,
    pub build: String,
    /// Identifies this process and this loading of the library. The value is unique, also across
    /// hosts and containers.
    pub process: String,
    /// Load time in seconds since 1970, by the clock of the OSD's host.
    pub loaded_unix_s: u64,
    /// Time since the load, by a monotonic clock.
    pub loaded_ms_ago: u64,
    /// Sorted by name, each with all of its methods.
    pub classes: Vec<ClassCalls>,
}

/// The call counters of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCalls {
    #[serde(rename = "class")]
    pub name: String,
    /// The version of a guest; none for a class of the library itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    pub methods: Vec<MethodCalls>,
}

/// The call counters of one method.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodCalls {
    #[serde(rename = "method")]
    pub name: String,
    /// Number of runs, complete or not.
    pub calls: u64,
    /// Number of runs that returned an error of any kind. A lock held by another client also
    /// counts.
    pub failures: u64,
    /// Number of runs that failed with `ClassFailed`, such as a panic, a trap, or an undeclared
    /// access.
    #[serde(default)]
    pub faults: u64,
    /// Total run time, including reads of the object. It is the time for which a thread of the OSD
    /// did nothing else.
    pub busy_us: u64,
    /// Total fuel that a guest used, about one unit for an instruction.
    #[serde(default)]
    pub fuel: u64,
    /// The largest memory of a guest in one call.
    #[serde(default)]
    pub memory_bytes_max: u64,
}

/// The description of a class library.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryInfo {
    /// NAME of `libcls_NAME.so`.
    pub library: String,
    pub build: String,
    /// Sorted by name.
    pub classes: Vec<ClassInfo>,
}

/// A store's description of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassInfo {
    #[serde(rename = "class")]
    pub name: String,
    pub version: u32,
    pub build: String,
    pub summary: String,
    pub methods: Vec<MethodInfo>,
}

/// A store's description of one method. The fields are those of [`Method`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodInfo {
    #[serde(rename = "method")]
    pub name: String,
    pub reads: bool,
    pub writes: bool,
    /// The attribute that holds the result of a write method.
    pub result_xattr: Option<String>,
    pub summary: String,
    pub input: String,
    pub output: String,
    pub examples: Vec<String>,
}

/// The classes that an engine can run.
#[derive(Clone, Default)]
pub struct ClassRegistry {
    classes: BTreeMap<&'static str, Arc<dyn Class>>,
}

impl ClassRegistry {
    pub fn new() -> ClassRegistry {
        ClassRegistry::default()
    }

    /// Adds a class. It replaces a class of the same name.
    #[must_use]
    pub fn with(mut self, class: impl Class + 'static) -> ClassRegistry {
        self.classes.insert(class.name(), Arc::new(class));
        self
    }

    /// Finds a method.
    ///
    /// # Errors
    /// `Unsupported` if the class or the method does not exist.
    pub fn method(&self, class: &str, method: &str) -> Result<&'static Method> {
        let Some(found) = self.classes.get(class) else {
            let message = "no such class; `benthic class ls` lists the classes";
            return Err(Error::unsupported(message).with("class", class));
        };
        found.methods().iter().find(|candidate| candidate.name == method).ok_or_else(|| {
            Error::unsupported("no such method; `benthic class show CLASS` lists the methods")
                .with("class", class)
                .with("method", method)
        })
    }

    /// Describes all classes, sorted by name.
    pub fn describe(&self) -> Vec<ClassInfo> {
        self.classes.values().map(|class| ClassInfo::of(class.as_ref())).collect()
    }
}

impl ClassInfo {
    pub fn of(class: &dyn Class) -> ClassInfo {
        ClassInfo {
            name: class.name().to_owned(),
            version: class.version(),
            build: build().to_owned(),
            summary: class.summary().to_owned(),
            methods: class.methods().iter().map(MethodInfo::of).collect(),
        }
    }
}

impl MethodInfo {
    fn of(method: &Method) -> MethodInfo {
        MethodInfo {
            name: method.name.to_owned(),
            reads: method.flags.contains(MethodFlags::READ),
            writes: method.flags.contains(MethodFlags::WRITE),
            result_xattr: match method.result {
                MethodResult::Xattr(name) => Some(name.to_owned()),
                MethodResult::Nothing | MethodResult::Output => None,
            },
            summary: method.summary.to_owned(),
            input: method.input.to_owned(),
            output: method.output.to_owned(),
            examples: method.examples.iter().map(|example| (*example).to_owned()).collect(),
        }
    }
}
