//! Classes: code that runs beside the objects. Written once, linked into the embedded engine and into the
//! library that ceph-osd loads.

use crate::{Error, ErrorKind, MethodContext, Result};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ops::BitOr, sync::Arc};

/// The build that this binary or library comes from.
pub const BUILD: &str = match option_env!("BENTHIC_BUILD") {
    Some(build) => build,
    None => env!("CARGO_PKG_VERSION"),
};

/// What a method declares that it does: at least one of the two (an OSD refuses a method without flags). Doing what
/// was not declared fails the operation (`ClassFailed`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodFlags(u8);

impl MethodFlags {
    /// Reads the object. A `READ` method on a missing object is `NotFound` and is not called.
    pub const READ: MethodFlags = MethodFlags(1);
    /// Changes the object; returns nothing to the caller.
    pub const WRITE: MethodFlags = MethodFlags(2);
    /// Reads and changes the object; returns nothing to the caller.
    pub const READ_WRITE: MethodFlags = MethodFlags(3);

    /// Whether all of `flags` are declared.
    pub fn contains(self, flags: MethodFlags) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// The flags as two bits: 1 reads, 2 writes.
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

/// Where a method leaves what it has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MethodResult {
    /// Nowhere: it only changes the object.
    Nothing,
    /// In its output. Not for write methods, whose output nobody gets.
    Output,
    /// In this attribute of the object; the caller reads it back.
    Xattr(&'static str),
}

/// One method of a class: the code and what a person needs to know to call it.
///
/// A method is **idempotent** where a retry can reach it: an OSD may run one more than once. It returns the
/// errors of the [table](crate::error::ERROR_TABLE). It starts no threads and keeps no state between calls.
#[derive(Debug)]
pub struct Method {
    /// Name, unique in the class.
    pub name: &'static str,
    /// What it does to the object.
    pub flags: MethodFlags,
    /// The code. It gets the input and gives the output (ignored if it writes).
    pub run: fn(&mut MethodContext<'_>, &[u8]) -> Result<Vec<u8>>,
    /// Where the result is.
    pub result: MethodResult,
    /// One line on what it does.
    pub summary: &'static str,
    /// What the input is.
    pub input: &'static str,
    /// What the result is.
    pub output: &'static str,
    /// Inputs to try.
    pub examples: &'static [&'static str],
}

/// A class: a named set of methods.
pub trait Class: Send + Sync {
    /// Name, unique in a store.
    fn name(&self) -> &'static str;
    /// Version of the interface; it grows when a method's meaning changes.
    fn version(&self) -> u32;
    /// One line on what it is for.
    fn summary(&self) -> &'static str;
    /// Its methods.
    fn methods(&self) -> &'static [Method];
}

/// The method that every library of classes has: gives its [`LibraryInfo`] as JSON, and takes no input.
///
/// It is declared to write, and writes nothing. So an OSD calls it with any object name, also of an object that is not
/// there, creates nothing, and returns its output as that of a read: a client calls it in a *read* operation. (An OSD
/// calls no method that only reads on a missing object, and a cluster need not have an object in every OSD.) The caller
/// needs the right to call methods, `x`; `allow rx` is enough. An OSD notes every call of it in the log of the placement
/// group, on all replicas, as it does a write: it takes as long as a small one.
///
/// ```json
/// {"library":"benthic_1","build":"0.1.0","classes":[{"class":"hello","version":1,"build":"0.1.0","summary":"…",
///  "methods":[{"method":"say","reads":true,"writes":false,"result_xattr":null,"summary":"…","input":"…",
///              "output":"…","examples":["Ada"]}]}]}
/// ```
pub const DESCRIBE: &str = "benthic.describe";

/// The method by which every library of classes tells how often its methods were called: gives its [`LibraryCalls`] as
/// JSON, and takes no input. It is called as [`DESCRIBE`] is, with any object name and the right `x`.
///
/// The counts are those of one OSD process since it loaded the library, and begin again at 0 when it starts again. Counted is
/// every run of a method, also one that fails, panics or runs out of time; not what the OSD refuses before it comes to the
/// library (no right, no such method, a missing object), and not [`DESCRIBE`] and this method. A library of a build that does
/// not count has no such method: `Unsupported`.
///
/// ```json
/// {"library":"benthic_1","build":"0.1.0","process":"1f3a-18a9c0ffee123456","loaded_unix_s":1790000000,
///  "loaded_ms_ago":61234,"classes":[{"class":"hello","methods":[{"method":"say","calls":12,"failures":1,
///  "busy_us":340}]}]}
/// ```
pub const CALLS: &str = "benthic.calls";

/// What a library of classes says about the calls of its methods in one process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryCalls {
    /// NAME of `libcls_NAME.so`.
    pub library: String,
    /// The build that runs.
    pub build: String,
    /// The process, and its loading of the library: no other one has the same word, also in another host or container.
    pub process: String,
    /// When it was loaded, in seconds since 1970 by the clock of the OSD's host.
    pub loaded_unix_s: u64,
    /// How long ago that was, by a clock that nobody sets.
    pub loaded_ms_ago: u64,
    /// Its classes, by name, with all of their methods.
    pub classes: Vec<ClassCalls>,
}

/// The calls of one class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassCalls {
    /// Name.
    #[serde(rename = "class")]
    pub name: String,
    /// Its methods.
    pub methods: Vec<MethodCalls>,
}

/// The calls of one method.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MethodCalls {
    /// Name.
    #[serde(rename = "method")]
    pub name: String,
    /// How often it ran, to the end or not.
    pub calls: u64,
    /// How often of them its answer was an error, whatever the reason: a lock that another one has is an error too.
    pub failures: u64,
    /// How long it ran altogether, reading the object included: as long a thread of the OSD did nothing else.
    pub busy_us: u64,
}

/// What a library of classes says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LibraryInfo {
    /// NAME of `libcls_NAME.so`.
    pub library: String,
    /// The build that runs.
    pub build: String,
    /// Its classes, by name.
    pub classes: Vec<ClassInfo>,
}

/// What a store says about one of its classes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassInfo {
    /// Name.
    #[serde(rename = "class")]
    pub name: String,
    /// Version of the interface.
    pub version: u32,
    /// The build that runs.
    pub build: String,
    /// One line on what it is for.
    pub summary: String,
    /// Its methods.
    pub methods: Vec<MethodInfo>,
}

/// What a store says about one method; the fields are those of [`Method`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "documented at Method")]
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

/// The classes that an engine runs.
#[derive(Clone, Default)]
pub struct ClassRegistry {
    classes: BTreeMap<&'static str, Arc<dyn Class>>,
}

impl ClassRegistry {
    /// No classes.
    pub fn new() -> ClassRegistry {
        ClassRegistry::default()
    }

    /// Adds a class, in place of one with the same name.
    #[must_use]
    pub fn with(mut self, class: impl Class + 'static) -> ClassRegistry {
        self.classes.insert(class.name(), Arc::new(class));
        self
    }

    /// Finds a method.
    ///
    /// # Errors
    /// `Unsupported` if the class or the method is not there.
    pub fn method(&self, class: &str, method: &str) -> Result<&'static Method> {
        let Some(found) = self.classes.get(class) else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "no such class; `benthic class ls` shows what is there",
            )
            .with("class", class));
        };
        found.methods().iter().find(|candidate| candidate.name == method).ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                "no such method; `benthic class show CLASS` shows what is there",
            )
            .with("class", class)
            .with("method", method)
        })
    }

    /// Describes all classes, by name.
    pub fn describe(&self) -> Vec<ClassInfo> {
        self.classes.values().map(|class| ClassInfo::of(class.as_ref())).collect()
    }
}

impl ClassInfo {
    /// Describes a class of this build.
    pub fn of(class: &dyn Class) -> ClassInfo {
        ClassInfo {
            name: class.name().to_owned(),
            version: class.version(),
            build: BUILD.to_owned(),
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
