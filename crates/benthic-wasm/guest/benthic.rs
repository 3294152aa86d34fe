//! Benthic's functions for a class in Rust. `benthic class new --lang rust` copies this file into a
//! project. It needs no crate. A method is a function of this form:
//!
//! ```ignore
//! fn count(object: &mut Object, input: &[u8]) -> Result<Vec<u8>, Error>
//! ```
//!
//! `export!(count)` makes it callable; `class.json` describes it. A method reads before it writes.
//! All its changes take effect together, or none does if it fails. The output of a method that
//! writes is dropped: such a method stores its result in an attribute (`result_xattr` in
//! `class.json`).

#![allow(dead_code)]

use std::collections::BTreeMap;
use std::panic::PanicHookInfo;

/// The error of a method: an errno, which gives the kind, and a message for the caller.
#[derive(Debug)]
pub struct Error {
    errno: i32,
    message: String,
}

impl Error {
    pub const NOT_FOUND: i32 = 2;
    pub const CLASS_FAILED: i32 = 5;
    pub const BUSY: i32 = 16;
    pub const ALREADY_EXISTS: i32 = 17;
    pub const INVALID_ARGUMENT: i32 = 22;
    pub const LIMIT_EXCEEDED: i32 = 27;
    pub const CORRUPT: i32 = 74;
    pub const CONFLICT: i32 = 125;

    pub fn new(errno: i32, message: impl Into<String>) -> Error {
        Error { errno, message: message.into() }
    }

    pub fn errno(&self) -> i32 {
        self.errno
    }
}

impl From<String> for Error {
    fn from(message: String) -> Error {
        Error::new(Error::INVALID_ARGUMENT, message)
    }
}

impl From<&str> for Error {
    fn from(message: &str) -> Error {
        Error::from(message.to_owned())
    }
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[link(wasm_import_module = "benthic_1")]
unsafe extern "C" {
    safe fn input() -> i64;
    fn take(to: *mut u8, offset: u32, len: u32);
    fn output(from: *const u8, len: usize) -> i64;
    fn fail(from: *const u8, len: usize);
    #[link_name = "log"]
    fn log_line(level: u32, from: *const u8, len: usize);
    safe fn stat() -> i64;
    safe fn read(offset: u64, len: u64) -> i64;
    fn get_xattr(name: *const u8, len: usize) -> i64;
    safe fn list_xattrs() -> i64;
    fn omap_get(keys: *const u8, len: usize) -> i64;
    fn omap_range(after: *const u8, after_len: usize, prefix: *const u8, prefix_len: usize, max: u32) -> i64;
    safe fn create(exclusive: u32) -> i64;
    fn write(offset: u64, from: *const u8, len: usize) -> i64;
    fn write_full(from: *const u8, len: usize) -> i64;
    fn append(from: *const u8, len: usize) -> i64;
    safe fn truncate(size: u64) -> i64;
    safe fn zero(offset: u64, len: u64) -> i64;
    safe fn remove() -> i64;
    fn set_xattr(name: *const u8, name_len: usize, value: *const u8, value_len: usize) -> i64;
    fn omap_set(entries: *const u8, len: usize) -> i64;
    fn omap_remove(keys: *const u8, len: usize) -> i64;
    safe fn omap_clear() -> i64;
    fn call(
        class: *const u8,
        class_len: usize,
        method: *const u8,
        method_len: usize,
        input: *const u8,
        input_len: usize,
    ) -> i64;
}

/// The length of a function's result, or its error. The host knows the error's message.
fn check(result: i64) -> Result<usize> {
    match usize::try_from(result) {
        Ok(len) => Ok(len),
        Err(_) => Err(Error { errno: -result as i32, message: String::new() }),
    }
}

/// The result of the last function.
fn result(len: i64) -> Result<Vec<u8>> {
    let len = check(len)?;
    let mut bytes = Vec::with_capacity(len);
    // SAFETY: the host writes `len` bytes to the buffer, which has room for them.
    unsafe {
        take(bytes.as_mut_ptr(), 0, len as u32);
        bytes.set_len(len);
    }
    Ok(bytes)
}

/// Size and time of the last change of the object.
#[derive(Clone, Copy, Debug)]
pub struct Stat {
    pub size_bytes: u64,
    pub modified_unix_ns: u64,
}

/// The object beside which a method runs.
pub struct Object(());

impl Object {
    pub fn stat(&self) -> Result<Stat> {
        let bytes = result(stat())?;
        let number = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().unwrap_or_default());
        Ok(Stat { size_bytes: number(0), modified_unix_ns: number(8) })
    }

    /// Reads data; short if the range crosses the end of the object.
    pub fn read(&self, offset: u64, len: u64) -> Result<Vec<u8>> {
        result(read(offset, len))
    }

    /// Reads data into a buffer that can be used again, and returns its length.
    pub fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let len = check(read(offset, buffer.len() as u64))?;
        // SAFETY: the host returns at most as many bytes as were asked for.
        unsafe { take(buffer.as_mut_ptr(), 0, len as u32) };
        Ok(len)
    }

    pub fn get_xattr(&self, name: &str) -> Result<Vec<u8>> {
        // SAFETY: the pointer and the length are those of the name.
        result(unsafe { get_xattr(name.as_ptr(), name.len()) })
    }

    /// As [`get_xattr`](Object::get_xattr); `None` if the attribute is missing.
    pub fn find_xattr(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self.get_xattr(name) {
            Err(error) if error.errno == Error::NOT_FOUND => Ok(None),
            found => found.map(Some),
        }
    }

    pub fn list_xattrs(&self) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        Ok(entries(&result(list_xattrs())?))
    }

    /// The entries of those keys that exist.
    pub fn omap_get(&self, keys: &[&[u8]]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let keys = list(keys.iter().copied());
        // SAFETY: the pointer and the length are those of the list.
        Ok(entries(&result(unsafe { omap_get(keys.as_ptr(), keys.len()) })?))
    }

    /// At most `max` entries with the prefix, in the order of the keys, from the first key after
    /// `after`; and whether there are more.
    pub fn omap_range(
        &self,
        after: Option<&[u8]>,
        prefix: &[u8],
        max: u32,
    ) -> Result<(Vec<(Vec<u8>, Vec<u8>)>, bool)> {
        let (from, len) = after.map_or((usize::MAX as *const u8, 0), |after| (after.as_ptr(), after.len()));
        // SAFETY: the pointers and lengths are those of the keys; the largest address means no key.
        let page = result(unsafe { omap_range(from, len, prefix.as_ptr(), prefix.len(), max) })?;
        Ok((entries(&page[1..]), page[0] != 0))
    }

    pub fn create(&mut self, exclusive: bool) -> Result<()> {
        check(create(exclusive.into())).map(drop)
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        // SAFETY: the pointer and the length are those of the data; as in the functions below.
        check(unsafe { write(offset, data.as_ptr(), data.len()) }).map(drop)
    }

    pub fn write_full(&mut self, data: &[u8]) -> Result<()> {
        check(unsafe { write_full(data.as_ptr(), data.len()) }).map(drop)
    }

    /// Writes at the end. A second run appends again.
    pub fn append(&mut self, data: &[u8]) -> Result<()> {
        check(unsafe { append(data.as_ptr(), data.len()) }).map(drop)
    }

    pub fn truncate(&mut self, size: u64) -> Result<()> {
        check(truncate(size)).map(drop)
    }

    pub fn zero(&mut self, offset: u64, len: u64) -> Result<()> {
        check(zero(offset, len)).map(drop)
    }

    pub fn remove(&mut self) -> Result<()> {
        check(remove()).map(drop)
    }

    pub fn set_xattr(&mut self, name: &str, value: &[u8]) -> Result<()> {
        check(unsafe { set_xattr(name.as_ptr(), name.len(), value.as_ptr(), value.len()) }).map(drop)
    }

    pub fn omap_set(&mut self, entries: &BTreeMap<Vec<u8>, Vec<u8>>) -> Result<()> {
        let mut bytes = (entries.len() as u32).to_le_bytes().to_vec();
        entries
            .iter()
            .for_each(|(key, value)| [key, value].into_iter().for_each(|part| put(&mut bytes, part)));
        check(unsafe { omap_set(bytes.as_ptr(), bytes.len()) }).map(drop)
    }

    pub fn omap_remove(&mut self, keys: &[&[u8]]) -> Result<()> {
        let keys = list(keys.iter().copied());
        check(unsafe { omap_remove(keys.as_ptr(), keys.len()) }).map(drop)
    }

    pub fn omap_clear(&mut self) -> Result<()> {
        check(omap_clear()).map(drop)
    }

    /// Calls a method of a native class, such as `digest`, beside this object. Its changes take
    /// effect together with those of this method.
    pub fn call(&mut self, class: &str, method: &str, input: &[u8]) -> Result<Vec<u8>> {
        result(unsafe {
            call(class.as_ptr(), class.len(), method.as_ptr(), method.len(), input.as_ptr(), input.len())
        })
    }
}

/// Writes a line to the log of the process that runs the class.
pub fn log(text: &str) {
    unsafe { log_line(1, text.as_ptr(), text.len()) }
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
    bytes.extend_from_slice(part);
}

fn list<'a>(parts: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = (parts.len() as u32).to_le_bytes().to_vec();
    parts.for_each(|part| put(&mut bytes, part));
    bytes
}

/// Takes a number from the front.
fn number(bytes: &mut &[u8]) -> usize {
    let (number, rest) = bytes.split_at(4);
    *bytes = rest;
    u32::from_le_bytes([number[0], number[1], number[2], number[3]]) as usize
}

/// Takes a byte string from the front.
fn part(bytes: &mut &[u8]) -> Vec<u8> {
    let len = number(bytes);
    let (part, rest) = bytes.split_at(len);
    *bytes = rest;
    part.to_vec()
}

fn entries(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let count = number(&mut bytes);
    (0..count).map(|_| (part(&mut bytes), part(&mut bytes))).collect()
}

/// Gives the text of a panic to the caller of the method.
fn report_panic(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map_or_else(|| "an unknown place".to_owned(), ToString::to_string);
    let text = format!("the method panicked: {} ({place})", panic.payload_as_str().unwrap_or("no message"));
    // SAFETY: the pointer and the length are those of the text.
    unsafe { fail(text.as_ptr(), text.len()) };
}

/// The parts of an input that is a list: the results for a method that merges them (`benthic map
/// --reduce`), or the caller's input and the other objects that `class.json` declares for the
/// method.
pub fn results(mut input: &[u8]) -> Result<Vec<&[u8]>> {
    let mut take = |len: usize| {
        let (taken, rest) = input.split_at_checked(len).ok_or("the input is not a list of results")?;
        input = rest;
        Ok::<_, Error>(taken)
    };
    let count = number(&mut take(4)?);
    let mut results = Vec::new();
    for _ in 0..count {
        let len = number(&mut take(4)?);
        results.push(take(len)?);
    }
    Ok(results)
}

/// Runs a method. [`export!`](crate::export) uses it.
pub fn run(method: fn(&mut Object, &[u8]) -> Result<Vec<u8>>) -> i32 {
    std::panic::set_hook(Box::new(report_panic));
    let ended = result(input()).and_then(|input| method(&mut Object(()), &input));
    let ended = ended.and_then(|bytes| check(unsafe { output(bytes.as_ptr(), bytes.len()) }).map(drop));
    match ended {
        Ok(()) => 0,
        Err(error) => {
            if !error.message.is_empty() {
                unsafe { fail(error.message.as_ptr(), error.message.len()) };
            }
            error.errno
        }
    }
}

/// Exports methods of the class.
#[macro_export]
macro_rules! export {
    ($($method:ident),+ $(,)?) => {
        $(const _: () = {
            #[unsafe(export_name = stringify!($method))]
            extern "C" fn run() -> i32 {
                $crate::benthic::run($method)
            }
        };)+
    };
}
