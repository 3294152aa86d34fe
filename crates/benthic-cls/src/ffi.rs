//! Safe wrappers of the functions in `shim.cc`. All `unsafe` code of this crate is here; `shim.cc`
//! states the contracts.
#![allow(unsafe_code)]

use benthic_core::FunctionCall;
use bytes::Bytes;
use libloading::os::unix::{Library, RTLD_NOW};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::panic::catch_unwind;
use std::path::Path;
use std::time::Duration;
use std::{ptr, slice};

/// A negative result of ceph-osd, as a positive number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

/// A key and a value of a map.
pub type Entry = (Bytes, Bytes);

#[repr(C)]
#[derive(Clone, Copy)]
struct Slice {
    data: *const u8,
    len: usize,
}

#[repr(C)]
struct EntrySlices {
    key: Slice,
    value: Slice,
}

#[repr(C)]
struct RawBuffer {
    data: *const u8,
    len: usize,
    owner: *mut c_void,
}

#[repr(C)]
struct RawMethod {
    name: *const c_char,
    flags: c_int,
}

type Take = unsafe extern "C" fn(*mut c_void, Slice, Slice);
type Call = unsafe extern "C" fn(usize, *mut c_void, Slice, *mut c_void) -> c_int;

unsafe extern "C" {
    safe fn benthic_cls_methods_max() -> usize;
    fn benthic_cls_register(
        name: *const c_char,
        methods: *const RawMethod,
        count: usize,
        call: Call,
    ) -> c_int;
    fn benthic_cls_log(level: c_int, message: Slice);
    fn benthic_cls_output(output: *mut c_void, data: Slice) -> c_int;
    fn benthic_cls_free(owner: *mut c_void);
    fn benthic_cls_sender(context: *mut c_void, kind: *mut u8, number: *mut i64) -> c_int;
    fn benthic_cls_stat(context: *mut c_void, size_bytes: *mut u64, modified_unix_ns: *mut u64) -> c_int;
    fn benthic_cls_read(context: *mut c_void, offset: u64, len: u64, buffer: *mut RawBuffer) -> c_int;
    fn benthic_cls_get_xattr(context: *mut c_void, name: Slice, buffer: *mut RawBuffer) -> c_int;
    fn benthic_cls_list_xattrs(context: *mut c_void, take: Take, sink: *mut c_void) -> c_int;
    fn benthic_cls_omap_get(
        context: *mut c_void,
        keys: *const Slice,
        count: usize,
        take: Take,
        sink: *mut c_void,
    ) -> c_int;
    fn benthic_cls_omap_range(
        context: *mut c_void,
        after: Slice,
        prefix: Slice,
        entries_max: u64,
        more: *mut bool,
        take: Take,
        sink: *mut c_void,
    ) -> c_int;
    fn benthic_cls_create(context: *mut c_void, exclusive: bool) -> c_int;
    fn benthic_cls_write(context: *mut c_void, offset: u64, data: Slice) -> c_int;
    fn benthic_cls_write_full(context: *mut c_void, data: Slice) -> c_int;
    fn benthic_cls_truncate(context: *mut c_void, size: u64) -> c_int;
    fn benthic_cls_zero(context: *mut c_void, offset: u64, len: u64) -> c_int;
    fn benthic_cls_remove(context: *mut c_void) -> c_int;
    fn benthic_cls_set_xattr(context: *mut c_void, name: Slice, value: Slice) -> c_int;
    fn benthic_cls_omap_set(context: *mut c_void, entries: *const EntrySlices, count: usize) -> c_int;
    fn benthic_cls_omap_remove(context: *mut c_void, key: Slice) -> c_int;
    fn benthic_cls_omap_clear(context: *mut c_void) -> c_int;
}

impl Slice {
    fn of(bytes: &[u8]) -> Slice {
        Slice { data: bytes.as_ptr(), len: bytes.len() }
    }

    /// # Safety
    /// The slice must hold the shim's promise: `len` bytes at `data` are readable for `'a`, unless
    /// `len` is 0.
    unsafe fn bytes<'a>(self) -> &'a [u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: the caller guarantees it.
        unsafe { slice::from_raw_parts(self.data, self.len) }
    }
}

fn check(result: c_int) -> Result<(), Errno> {
    if result < 0 { Err(Errno(result.wrapping_neg())) } else { Ok(()) }
}

/// Bytes that ceph-osd owns; freed on drop.
struct Buffer(RawBuffer);

// SAFETY: a buffer never changes, and ceph-osd's reference counters are atomic.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the owner lives as long as `self` and keeps these bytes alive.
        unsafe { Slice { data: self.0.data, len: self.0.len }.bytes() }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: we hold the owner, and only this line frees it.
        unsafe { benthic_cls_free(self.0.owner) }
    }
}

fn take_buffer(fill: impl FnOnce(*mut RawBuffer) -> c_int) -> Result<Bytes, Errno> {
    let mut raw = RawBuffer { data: ptr::null(), len: 0, owner: ptr::null_mut() };
    check(fill(&mut raw))?;
    Ok(Bytes::from_owner(Buffer(raw)))
}

fn take_entries(fill: impl FnOnce(Take, *mut c_void) -> c_int) -> Result<Vec<Entry>, Errno> {
    unsafe extern "C" fn take(sink: *mut c_void, key: Slice, value: Slice) {
        // SAFETY: the sink is the vector below, which nothing else uses during the call; the slices
        // come from the shim.
        let (entries, key, value) = unsafe { (&mut *sink.cast::<Vec<Entry>>(), key.bytes(), value.bytes()) };
        entries.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
    }
    let mut entries: Vec<Entry> = Vec::new();
    check(fill(take, (&raw mut entries).cast()))?;
    Ok(entries)
}

/// One object during one operation, as ceph-osd passes it to a method. `shim.cc` describes the
/// operations.
pub struct Context<'a> {
    raw: *mut c_void,
    call: PhantomData<&'a ()>,
}

// SAFETY of all blocks: `raw` is valid as long as `self`, which `call` below creates for the
// duration of the call. The slices are borrowed for the call, and the shim writes through the
// pointers only during the call.
#[allow(clippy::undocumented_unsafe_blocks, reason = "documented once, above")]
impl Context<'_> {
    /// The type and the number of the process that sent the operation; see `shim.cc`.
    pub fn sender(&self) -> Result<(u8, i64), Errno> {
        let (mut kind, mut number) = (0, 0);
        check(unsafe { benthic_cls_sender(self.raw, &mut kind, &mut number) })?;
        Ok((kind, number))
    }

    /// Size in bytes, and modification time in ns since 1970.
    pub fn stat(&self) -> Result<(u64, u64), Errno> {
        let (mut size_bytes, mut modified_unix_ns) = (0, 0);
        check(unsafe { benthic_cls_stat(self.raw, &mut size_bytes, &mut modified_unix_ns) })?;
        Ok((size_bytes, modified_unix_ns))
    }

    pub fn read(&self, offset_bytes: u64, len_bytes: u64) -> Result<Bytes, Errno> {
        take_buffer(|buffer| unsafe { benthic_cls_read(self.raw, offset_bytes, len_bytes, buffer) })
    }

    pub fn get_xattr(&self, name: &str) -> Result<Bytes, Errno> {
        let name = Slice::of(name.as_bytes());
        take_buffer(|buffer| unsafe { benthic_cls_get_xattr(self.raw, name, buffer) })
    }

    pub fn list_xattrs(&self) -> Result<Vec<Entry>, Errno> {
        take_entries(|take, sink| unsafe { benthic_cls_list_xattrs(self.raw, take, sink) })
    }

    pub fn omap_get(&self, keys: &[&Bytes]) -> Result<Vec<Entry>, Errno> {
        let keys: Vec<_> = keys.iter().map(|key| Slice::of(key)).collect();
        take_entries(|take, sink| unsafe {
            benthic_cls_omap_get(self.raw, keys.as_ptr(), keys.len(), take, sink)
        })
    }

    /// The entries, and whether more follow.
    pub fn omap_range(
        &self,
        after: &[u8],
        prefix: &[u8],
        entries_max: usize,
    ) -> Result<(Vec<Entry>, bool), Errno> {
        let (after, prefix) = (Slice::of(after), Slice::of(prefix));
        let mut more = false;
        let entries = take_entries(|take, sink| unsafe {
            benthic_cls_omap_range(self.raw, after, prefix, entries_max as u64, &mut more, take, sink)
        })?;
        Ok((entries, more))
    }

    pub fn create(&self, exclusive: bool) -> Result<(), Errno> {
        check(unsafe { benthic_cls_create(self.raw, exclusive) })
    }

    pub fn write(&self, offset_bytes: u64, data: &[u8]) -> Result<(), Errno> {
        check(unsafe { benthic_cls_write(self.raw, offset_bytes, Slice::of(data)) })
    }

    pub fn write_full(&self, data: &[u8]) -> Result<(), Errno> {
        check(unsafe { benthic_cls_write_full(self.raw, Slice::of(data)) })
    }

    pub fn truncate(&self, size_bytes: u64) -> Result<(), Errno> {
        check(unsafe { benthic_cls_truncate(self.raw, size_bytes) })
    }

    pub fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), Errno> {
        check(unsafe { benthic_cls_zero(self.raw, offset_bytes, len_bytes) })
    }

    pub fn remove(&self) -> Result<(), Errno> {
        check(unsafe { benthic_cls_remove(self.raw) })
    }

    pub fn set_xattr(&self, name: &str, value: &[u8]) -> Result<(), Errno> {
        check(unsafe { benthic_cls_set_xattr(self.raw, Slice::of(name.as_bytes()), Slice::of(value)) })
    }

    pub fn omap_set<'e>(
        &self,
        entries: impl IntoIterator<Item = (&'e Bytes, &'e Bytes)>,
    ) -> Result<(), Errno> {
        let entries: Vec<_> = entries
            .into_iter()
            .map(|(key, value)| EntrySlices { key: Slice::of(key), value: Slice::of(value) })
            .collect();
        check(unsafe { benthic_cls_omap_set(self.raw, entries.as_ptr(), entries.len()) })
    }

    pub fn omap_remove(&self, key: &[u8]) -> Result<(), Errno> {
        check(unsafe { benthic_cls_omap_remove(self.raw, Slice::of(key)) })
    }

    pub fn omap_clear(&self) -> Result<(), Errno> {
        check(unsafe { benthic_cls_omap_clear(self.raw) })
    }
}

/// Writes a line to the OSD's log; see `shim.cc` for the level.
pub fn log(level: c_int, message: &str) {
    // SAFETY: the message is borrowed for the call.
    unsafe { benthic_cls_log(level, Slice::of(message.as_bytes())) }
}

/// A failed call: its errno, and the output that the OSD sends beside it.
pub struct Failed {
    pub errno: Errno,
    pub output: Bytes,
}

impl Failed {
    pub fn without_output(errno: i32) -> Failed {
        Failed { errno: Errno(errno), output: Bytes::new() }
    }
}

/// Handles calls: gets the method's index, its object and its input, and returns the output or the
/// failure.
pub trait Answer {
    fn answer(index: usize, context: Context<'_>, input: &[u8]) -> Result<Bytes, Failed>;
}

/// Registers a library and its methods (names and `CLS_METHOD_*` flags). Calls go to `A`, which may
/// panic.
pub fn register<A: Answer>(library: &CStr, methods: &[(&CStr, c_int)]) -> Result<(), Errno> {
    unsafe extern "C" fn call<A: Answer>(
        index: usize,
        context: *mut c_void,
        input: Slice,
        output: *mut c_void,
    ) -> c_int {
        // EIO is the errno of `ClassFailed` in the error table. The OSD drops the operation, and
        // with it the partial changes of a method that panicked.
        catch_unwind(|| {
            // SAFETY: ceph-osd keeps the input alive until the method returns.
            let input = unsafe { input.bytes() };
            // SAFETY: `output` is the pointer that the trampoline passed.
            let send = |bytes: &[u8]| unsafe { benthic_cls_output(output, Slice::of(bytes)) };
            match A::answer(index, Context { raw: context, call: PhantomData }, input) {
                Ok(answer) => send(&answer),
                Err(Failed { errno: Errno(errno), output }) => {
                    // Without memory for the text, the errno still arrives.
                    let _ = send(&output);
                    -errno
                }
            }
        })
        .unwrap_or(-benthic_core::error::errno::EIO)
    }
    let methods: Vec<_> =
        methods.iter().map(|(name, flags)| RawMethod { name: name.as_ptr(), flags: *flags }).collect();
    // SAFETY: the names end with NUL and outlive the call, which copies them.
    check(unsafe { benthic_cls_register(library.as_ptr(), methods.as_ptr(), methods.len(), call::<A>) })
}

/// The number of methods that [`register`] accepts.
pub fn methods_max() -> usize {
    benthic_cls_methods_max()
}

/// Opens only a library that the process has loaded already.
const RTLD_NOLOAD: c_int = 4;

/// The function that each library exports for the others. The number is the version of
/// [`RawFunctionCall`].
const FUNCTION_SYMBOL: &[u8] = b"benthic_cls_function_1";

type Function = extern "C" fn(&RawFunctionCall) -> c_int;

/// A [`FunctionCall`] between two libraries of a process. They share no types and no allocator.
#[repr(C)]
pub struct RawFunctionCall {
    name: Slice,
    input: Slice,
    has_client: bool,
    client: u64,
    time_left_ns: u64,
    /// Gets the sink and the output, or the output of a failed call.
    take: unsafe extern "C" fn(*mut c_void, Slice),
    sink: *mut c_void,
}

/// Answers a call from another library. Returns 0 or an errno.
pub fn answer_function(
    call: &RawFunctionCall,
    answer: fn(&FunctionCall<'_>) -> Result<Bytes, Failed>,
) -> c_int {
    catch_unwind(|| {
        // SAFETY: the caller keeps both alive until this function returns.
        let (name, input) = unsafe { (call.name.bytes(), call.input.bytes()) };
        let (errno, output) = match answer(&FunctionCall {
            name: std::str::from_utf8(name).unwrap_or_default(),
            input,
            client: call.has_client.then_some(call.client),
            time_left: Duration::from_nanos(call.time_left_ns),
        }) {
            Ok(output) => (0, output),
            Err(Failed { errno: Errno(errno), output }) => (errno, output),
        };
        // SAFETY: the caller passed both.
        unsafe { (call.take)(call.sink, Slice::of(&output)) };
        errno
    })
    .unwrap_or(benthic_core::error::errno::EIO)
}

/// Another library of Benthic in this process.
pub struct LoadedLibrary {
    function: Function,
    /// Keeps the library loaded.
    _library: Library,
}

impl LoadedLibrary {
    /// `None` if the process has not loaded this file, or if it is of a build without functions.
    pub fn find(file: &Path) -> Option<LoadedLibrary> {
        // SAFETY: no code runs, because the library is loaded already.
        let library = unsafe { Library::open(Some(file), RTLD_NOW | RTLD_NOLOAD) }.ok()?;
        // SAFETY: every library of Benthic exports the symbol with this type.
        let function = *unsafe { library.get::<Function>(FUNCTION_SYMBOL) }.ok()?;
        Some(LoadedLibrary { function, _library: library })
    }

    pub fn call(&self, call: &FunctionCall<'_>) -> Result<Bytes, Failed> {
        unsafe extern "C" fn take(sink: *mut c_void, output: Slice) {
            // SAFETY: the sink is the variable below, which nothing else uses during the call; the
            // slice comes from `answer_function`.
            unsafe { *sink.cast::<Bytes>() = Bytes::copy_from_slice(output.bytes()) }
        }
        let mut output = Bytes::new();
        let errno = (self.function)(&RawFunctionCall {
            name: Slice::of(call.name.as_bytes()),
            input: Slice::of(call.input),
            has_client: call.client.is_some(),
            client: call.client.unwrap_or_default(),
            time_left_ns: u64::try_from(call.time_left.as_nanos()).unwrap_or(u64::MAX),
            take,
            sink: (&raw mut output).cast(),
        });
        if errno == 0 { Ok(output) } else { Err(Failed { errno: Errno(errno), output }) }
    }
}
