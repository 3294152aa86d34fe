//! Calls between the libraries of an OSD. A method of one library calls a reading method of another
//! as a function, without an object: the other library counts the call and applies its own rules.

use crate::ffi::{Errno, Failed, LoadedLibrary};
use benthic_core::{Action, Error, ErrorKind, FailureReport, FunctionCall, Result};
use bytes::Bytes;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

/// Another library, in the same directory as this one.
pub struct OtherLibrary {
    name: &'static str,
    loaded: OnceLock<LoadedLibrary>,
}

impl OtherLibrary {
    /// The library `libcls_NAME.so`.
    pub const fn new(name: &'static str) -> OtherLibrary {
        OtherLibrary { name, loaded: OnceLock::new() }
    }

    /// Calls a reading method.
    ///
    /// # Errors
    /// Those of the method; `Unsupported` if it does not exist, or if the OSD has not loaded the
    /// library.
    pub fn call(&self, call: &FunctionCall<'_>) -> Result<Bytes> {
        self.library()?.call(call).map_err(|Failed { errno: Errno(errno), output }| {
            let report: Option<FailureReport> = serde_json::from_slice(&output).ok();
            let kind = report.as_ref().and_then(FailureReport::kind);
            let kind = kind.unwrap_or_else(|| ErrorKind::from_errno(errno, Action::Exec));
            let text = report.map_or_else(|| "the method returned an error".to_owned(), |report| report.text);
            Error::new(kind, text)
        })
    }

    fn library(&self) -> Result<&LoadedLibrary> {
        if let Some(loaded) = self.loaded.get() {
            return Ok(loaded);
        }
        let file_name = format!("libcls_{}.so", self.name);
        let found = library_path().and_then(|here| LoadedLibrary::find(&here.with_file_name(&file_name)));
        match found {
            Some(found) => Ok(self.loaded.get_or_init(|| found)),
            None => {
                let message = "the OSD has not loaded the library, or one of an older build";
                Err(Error::unsupported(message).with("library", file_name))
            }
        }
    }
}

/// The file of this library, which the kernel knows from the code that it mapped.
pub fn library_path() -> Option<PathBuf> {
    let here = library_path as *const () as usize;
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    let line = maps.lines().find(|line| {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        let address = |hex| usize::from_str_radix(hex, 16).ok();
        range.is_some_and(|(from, to)| address(from) <= Some(here) && Some(here) < address(to))
    })?;
    line.find('/').map(|start| PathBuf::from(&line[start..]))
}
