//! A deterministic subset of WASI (`wasi_snapshot_preview1`) for languages whose runtime cannot do
//! without it. These are the functions that Go imports.
//!
//! There are no files, no network, no environment and no arguments. The answers depend on the calls
//! of the module only, so a call gives the same result on every replica and at every repetition.
//!
//! | function | answer |
//! | --- | --- |
//! | `clock_time_get` | a clock that begins at 0 in each call, and advances by 1 µs each time it is read |
//! | `poll_oneoff` | returns at once; the clock advances by the time that the module wants to sleep |
//! | `random_get` | pseudorandom bytes, the same in each call |
//! | `fd_write` | lines that are written to 1 and 2 go to the log of the call |
//! | `proc_exit` | ends the call with an error |
//! | `args_*`, `environ_*`, `sched_yield` | nothing |
//! | all others | `BADF`, because no file is open |
//!
//! A pointer outside the module's memory is a trap. Rejected: a crate that implements WASI, because
//! its functions reach files, clocks and random numbers of the host.

use crate::host::{Host, LOG_TEXT_BYTES_MAX};

/// The name of the module from which a class imports WASI.
pub const IMPORTS: &str = "wasi_snapshot_preview1";

/// The error numbers of WASI.
pub const SUCCESS: u32 = 0;
pub const BADF: u32 = 8;
const INVAL: u32 = 28;

const STDOUT: u32 = 1;
const STDERR: u32 = 2;
/// Limit of the parts of one write, and of the events of one poll.
const LIST_ITEMS_MAX: u32 = 1_024;
/// Limit of one write. A longer one is cut short, and the module repeats it with the rest.
const WRITE_BYTES_MAX: u32 = 64 * 1024;
const CLOCK_STEP_NS: u64 = 1_000;

/// The WASI state of one call.
#[derive(Default)]
pub struct WasiState {
    now_ns: u64,
    random: u64,
    /// The bytes that were written to standard output and standard error since the last end of a
    /// line.
    line: Vec<u8>,
    /// The first line that was written to standard error.
    first_error: Option<String>,
}

impl Host {
    pub fn wasi_clock(&mut self, memory: &mut [u8], to: u32) -> Option<u32> {
        let state = &mut self.wasi;
        state.now_ns = state.now_ns.saturating_add(CLOCK_STEP_NS);
        put(memory, to, &state.now_ns.to_le_bytes())
    }

    /// Fills memory with the numbers of SplitMix64.
    pub fn wasi_random(&mut self, memory: &mut [u8], to: u32, len: u32) -> Option<u32> {
        if self.part(memory, to, len)?.is_empty() {
            return Some(SUCCESS);
        }
        for bytes in memory.get_mut(to as usize..)?.get_mut(..len as usize)?.chunks_mut(8) {
            self.wasi.random = self.wasi.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut number = self.wasi.random;
            number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            bytes.copy_from_slice(&(number ^ (number >> 31)).to_le_bytes()[..bytes.len()]);
        }
        Some(SUCCESS)
    }

    pub fn wasi_write(
        &mut self,
        memory: &mut [u8],
        file: u32,
        parts: u32,
        count: u32,
        written: u32,
    ) -> Option<u32> {
        if file != STDOUT && file != STDERR {
            return Some(BADF);
        }
        if count > LIST_ITEMS_MAX {
            return Some(INVAL);
        }
        let mut done = 0;
        for index in 0..count {
            let item = parts.checked_add(8 * index)?;
            let (from, len) = (get_u32(memory, item)?, get_u32(memory, item.checked_add(4)?)?);
            let text = self.part(memory, from, len.min(WRITE_BYTES_MAX - done))?;
            done += text.len() as u32;
            self.print(file, text);
        }
        put(memory, written, &done.to_le_bytes())
    }

    fn print(&mut self, file: u32, text: &[u8]) {
        for piece in text.split_inclusive(|byte| *byte == b'\n') {
            let line = &mut self.wasi.line;
            let room = LOG_TEXT_BYTES_MAX - line.len();
            line.extend_from_slice(&piece[..piece.len().min(room)]);
            if piece.ends_with(b"\n") {
                self.end_line(file);
            }
        }
    }

    /// Writes the line to the log.
    fn end_line(&mut self, file: u32) {
        let line = std::mem::take(&mut self.wasi.line);
        let line = line.trim_ascii_end();
        if file == STDERR && !line.is_empty() && self.wasi.first_error.is_none() {
            self.wasi.first_error = Some(String::from_utf8_lossy(line).into_owned());
        }
        self.log(1, line);
    }

    fn end_last_line(&mut self, file: u32) {
        if !self.wasi.line.is_empty() {
            self.end_line(file);
        }
    }

    pub(crate) fn wasi_finish(&mut self) {
        self.end_last_line(STDOUT);
    }

    /// `None` is a trap.
    pub fn wasi_exit(&mut self, status: u32) -> Option<()> {
        self.end_last_line(STDERR);
        let error = self.wasi.first_error.take();
        self.note_exit(status, error);
        None
    }

    /// Reports an event for each subscription. Advances the clock instead of sleeping.
    pub fn wasi_poll(
        &mut self,
        memory: &mut [u8],
        subscriptions: u32,
        events: u32,
        count: u32,
        reported: u32,
    ) -> Option<u32> {
        if count == 0 || count > LIST_ITEMS_MAX {
            return Some(INVAL);
        }
        for index in 0..count {
            let subscription: [u8; 48] =
                self.part(memory, subscriptions.checked_add(48 * index)?, 48)?.try_into().ok()?;
            let number =
                |at: usize| u64::from_le_bytes(subscription[at..at + 8].try_into().unwrap_or_default());
            let is_clock = subscription[8] == 0;
            if is_clock {
                let is_absolute = subscription[40] & 1 != 0;
                let until =
                    if is_absolute { number(24) } else { self.wasi.now_ns.saturating_add(number(24)) };
                self.wasi.now_ns = self.wasi.now_ns.max(until);
            }
            // The user's data (u64), the error (u16) and the type (u8).
            let mut event = [0; 32];
            event[..8].copy_from_slice(&subscription[..8]);
            event[8] = if is_clock { SUCCESS as u8 } else { BADF as u8 };
            event[10] = subscription[8];
            put(memory, events.checked_add(32 * index)?, &event)?;
        }
        put(memory, reported, &count.to_le_bytes())
    }
}

/// The number of arguments or variables, and the bytes that they need.
pub fn no_strings(memory: &mut [u8], count: u32, len: u32) -> Option<u32> {
    put(memory, count, &[0; 4])?;
    put(memory, len, &[0; 4])
}

fn get_u32(memory: &[u8], from: u32) -> Option<u32> {
    let bytes = memory.get(from as usize..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn put(memory: &mut [u8], to: u32, bytes: &[u8]) -> Option<u32> {
    memory.get_mut(to as usize..)?.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(SUCCESS)
}

/// Adds the functions to a linker, for [`define_link!`](crate::define_link).
#[macro_export]
macro_rules! add_wasi {
    ($linker:ident, $parts:ident, $error:expr) => {
        $crate::add_functions! { $linker, $crate::wasi::IMPORTS, $parts, $error;
            "args_get" |host, _memory, _to: u32, _text: u32| Some($crate::wasi::SUCCESS);
            "args_sizes_get" |host, memory, count: u32, len: u32| $crate::wasi::no_strings(memory, count, len);
            "clock_time_get" |host, memory, _clock: u32, _precision: u64, to: u32| host.wasi_clock(memory, to);
            "environ_get" |host, _memory, _to: u32, _text: u32| Some($crate::wasi::SUCCESS);
            "environ_sizes_get" |host, memory, count: u32, len: u32| $crate::wasi::no_strings(memory, count, len);
            "fd_write" |host, memory, file: u32, parts: u32, count: u32, written: u32| {
                host.wasi_write(memory, file, parts, count, written)
            };
            "poll_oneoff" |host, memory, subscriptions: u32, events: u32, count: u32, reported: u32| {
                host.wasi_poll(memory, subscriptions, events, count, reported)
            };
            "proc_exit" |host, _memory, status: u32| host.wasi_exit(status);
            "random_get" |host, memory, to: u32, len: u32| host.wasi_random(memory, to, len);
            "sched_yield" |host, _memory| Some($crate::wasi::SUCCESS);
        }
        $crate::add_files! { $linker, $parts, $error;
            "fd_close" (file: u32);
            "fd_fdstat_get" (file: u32, to: u32);
            "fd_fdstat_set_flags" (file: u32, flags: u32);
            "fd_fdstat_set_rights" (file: u32, rights: u64, inherited: u64);
            "fd_filestat_get" (file: u32, to: u32);
            "fd_filestat_set_size" (file: u32, size: u64);
            "fd_pread" (file: u32, parts: u32, count: u32, offset: u64, read: u32);
            "fd_prestat_dir_name" (file: u32, path: u32, len: u32);
            "fd_prestat_get" (file: u32, to: u32);
            "fd_pwrite" (file: u32, parts: u32, count: u32, offset: u64, written: u32);
            "fd_read" (file: u32, parts: u32, count: u32, read: u32);
            "fd_readdir" (file: u32, to: u32, len: u32, cookie: u64, used: u32);
            "fd_seek" (file: u32, offset: u64, whence: u32, to: u32);
            "fd_sync" (file: u32);
            "path_create_directory" (file: u32, path: u32, len: u32);
            "path_filestat_get" (file: u32, flags: u32, path: u32, len: u32, to: u32);
            "path_filestat_set_times" (file: u32, flags: u32, path: u32, len: u32, accessed: u64, modified: u64, which: u32);
            "path_link" (file: u32, flags: u32, path: u32, len: u32, new_file: u32, new_path: u32, new_len: u32);
            "path_open" (file: u32, flags: u32, path: u32, len: u32, open_flags: u32, rights: u64, inherited: u64, file_flags: u32, to: u32);
            "path_readlink" (file: u32, path: u32, len: u32, to: u32, to_len: u32, used: u32);
            "path_remove_directory" (file: u32, path: u32, len: u32);
            "path_rename" (file: u32, path: u32, len: u32, new_file: u32, new_path: u32, new_len: u32);
            "path_symlink" (path: u32, len: u32, file: u32, new_path: u32, new_len: u32);
            "path_unlink_file" (file: u32, path: u32, len: u32);
            "sock_accept" (file: u32, flags: u32, to: u32);
            "sock_shutdown" (file: u32, how: u32);
        }
    };
}

/// Adds functions that find no open file, for [`add_wasi!`](crate::add_wasi).
#[macro_export]
macro_rules! add_files {
    ($linker:ident, $parts:ident, $error:expr; $($name:literal ($($argument:ident: $type:ty),*);)*) => {
        $crate::add_functions! { $linker, $crate::wasi::IMPORTS, $parts, $error;
            $($name |host, _memory $(, $argument: $type)*| {
                let _ = ($($argument,)*);
                Some($crate::wasi::BADF)
            };)*
        }
    };
}
