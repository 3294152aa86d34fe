//! The functions that a module can import, all from [`IMPORTS`]. They are those of
//! [`MethodContext`](benthic_core::MethodContext).
//!
//! A function that can fail returns an `i64`: a negative errno of the error table, or the length of
//! its result. The module fetches the result with `take(to, offset, len)`. So a module need not
//! export an allocator. A list of entries is encoded as [`benthic_core::codec`] does: a count
//! (u32), then key and value of each entry, each preceded by its length (u32).
//!
//! | function | result |
//! | --- | --- |
//! | `input()` | the input of the call |
//! | `take(to: i32, offset: i32, len: i32)` | copies a part of the last result to `to` |
//! | `output(from: i32, len: i32)` | appends to the output of the call |
//! | `fail(from: i32, len: i32)` | sets the message of the error that the method is about to return, or of a trap |
//! | `log(level: i32, from: i32, len: i32)` | 0 debug, 1 info |
//! | `stat()` | size in bytes and time of the last change in ns since 1970, both u64 |
//! | `read(offset: i64, len: i64)` | data |
//! | `get_xattr(name: i32, len: i32)` | the attribute |
//! | `list_xattrs()` | entries |
//! | `omap_get(keys: i32, len: i32)` | entries; the keys are encoded as a count and the keys |
//! | `omap_range(after: i32, len: i32, prefix: i32, len: i32, entries_max: i32)` | 1 if there are more, else 0 (u8); entries. `after` is -1 for the beginning |
//! | `create(exclusive: i32)` | |
//! | `write(offset: i64, from: i32, len: i32)` | |
//! | `write_full(from: i32, len: i32)`, `append(from: i32, len: i32)` | |
//! | `truncate(size: i64)`, `zero(offset: i64, len: i64)`, `remove()` | |
//! | `set_xattr(name: i32, len: i32, value: i32, len: i32)` | |
//! | `call(class: i32, len: i32, method: i32, len: i32, input: i32, len: i32)` | the output of a method of a native class beside the same object |
//! | `omap_set(entries: i32, len: i32)`, `omap_remove(keys: i32, len: i32)`, `omap_clear()` | |
//!
//! A pointer outside the module's memory is a trap, unless the length is 0. A module can also
//! import [`wasi`](crate::wasi).

use crate::class::callee;
use crate::runtime::Borrowed;
use crate::wasi;
use benthic_core::codec::{Decoded, Decoder, Encode, Malformed};
use benthic_core::{Action, Error, ErrorKind, LogLevel, MethodFlags, Result, limits};
use bytes::Bytes;
use std::collections::BTreeMap;

/// The name of the module from which a class imports. The number is the version of the interface.
pub const IMPORTS: &str = "benthic_1";

/// Limit of one log message, and of the messages of one call.
pub(crate) const LOG_TEXT_BYTES_MAX: usize = 1024;
const LOG_LINES_MAX: u32 = 64;
const ERROR_TEXT_BYTES_MAX: usize = 1024;
/// Fuel for each call of a function, in addition to 1 for each byte that it moves.
const FUNCTION_FUEL: u64 = 1_000;
/// Limit of the changes of one call. An engine needs memory for each, however short its data are.
const CHANGES_MAX: u32 = 16_384;
/// Limit of the keys or entries in one list, which take more memory than their bytes.
const LIST_ITEMS_MAX: usize = 16_384;

/// The arguments of a method's call.
pub struct Call {
    pub reads: bool,
    pub writes: bool,
    pub input: Bytes,
}

/// The host's side of one call.
pub struct Host {
    context: Borrowed,
    call: Call,
    /// The result of the last function.
    result: Bytes,
    output: Vec<u8>,
    /// The error that the last failed function returned.
    last_error: Option<Error>,
    /// The text that the module gave for its own error.
    message: Option<String>,
    log_lines: u32,
    changes: u32,
    moved_bytes: u64,
    /// The reason for a trap that the host caused.
    fault: Option<Error>,
    /// The first use of a function that the manifest does not declare. It fails the call, even if
    /// the module ignores the error.
    undeclared: Option<&'static str>,
    /// Fuel of the call that the runtime's store does not have yet.
    pub(crate) reserve_fuel: u64,
    is_out_of_fuel: bool,
    pub(crate) wasi: wasi::WasiState,
}

/// How a run of a module ended.
pub enum Ended {
    /// The method returned this number.
    Returned(i32),
    OutOfFuel,
    OutOfStack,
    /// It trapped after it could not get more memory.
    OutOfMemory,
    /// The text says why.
    Trapped(String),
}

impl Host {
    pub fn new(context: Borrowed, call: Call) -> Host {
        Host {
            context,
            call,
            result: Bytes::new(),
            output: Vec::new(),
            last_error: None,
            message: None,
            log_lines: 0,
            changes: 0,
            moved_bytes: 0,
            fault: None,
            undeclared: None,
            reserve_fuel: 0,
            is_out_of_fuel: false,
            wasi: wasi::WasiState::default(),
        }
    }

    /// The outcome of the call, and the context for its lender.
    pub fn finish(mut self, ended: Ended) -> (Borrowed, Result<Vec<u8>>) {
        self.wasi_finish();
        let output = std::mem::take(&mut self.output);
        let ended = if self.is_out_of_fuel { Ended::OutOfFuel } else { ended };
        let outcome = match ended {
            Ended::Returned(_) if self.is_late() => Err(self.fault.take().unwrap_or_else(out_of_fuel)),
            Ended::Returned(number) => match self.undeclared {
                Some(what) => Err(undeclared(what)),
                None if number == 0 => Ok(output),
                None => Err(self.own_error(number)),
            },
            Ended::OutOfFuel => Err(out_of_fuel()),
            Ended::OutOfStack => Err(Error::class_failed("the method's recursion is too deep")),
            Ended::OutOfMemory => {
                let error = match self.message.take() {
                    Some(message) => Error::class_failed(message),
                    None => out_of_memory(),
                };
                Err(self.fault.take().unwrap_or(error))
            }
            Ended::Trapped(why) => {
                let message = self.message.take().unwrap_or_else(|| format!("the method trapped: {why}"));
                Err(self.fault.take().unwrap_or_else(|| Error::class_failed(message)))
            }
        };
        (self.context, outcome)
    }

    /// The error that the method returned: the one of a failed function if it passes that on.
    fn own_error(&mut self, number: i32) -> Error {
        let errno = number.unsigned_abs().try_into().unwrap_or(i32::MAX);
        let kind = ErrorKind::from_errno(errno, Action::Exec);
        if let Some(message) = self.message.take() {
            return Error::new(kind, message);
        }
        match self.last_error.take() {
            Some(error) if error.kind() == kind => error,
            _ => Error::new(kind, "the method returned an error without a message").with("errno", errno),
        }
    }

    /// Keeps the reason for a trap, which ends the call, if there is none yet.
    pub fn fault<E>(&mut self, message: &'static str, trap: impl FnOnce(&'static str) -> E) -> E {
        self.fault.get_or_insert_with(|| Error::class_failed(message));
        trap(message)
    }

    /// Stores the error of `proc_exit`.
    pub(crate) fn note_exit(&mut self, status: u32, error: Option<String>) {
        let message =
            error.map_or("the method exited".to_owned(), |error| format!("the method exited: {error}"));
        self.fault = Some(Error::class_failed(message).with("status", status));
    }

    /// Whether the deadline of the call has passed. If so, the call fails with that error.
    pub fn is_late(&mut self) -> bool {
        self.fault = self.context.get().check_deadline().err();
        self.fault.is_some()
    }

    /// Takes the cost of the host's work since the last call of this function from the store's
    /// fuel, and then from the reserve. Returns the fuel that the store keeps. `None` ends the
    /// call: it has used its fuel or its time. The runtimes check neither between two calls of the
    /// host.
    pub fn pay(&mut self, store_fuel: u64) -> Option<u64> {
        let cost = std::mem::take(&mut self.moved_bytes) + FUNCTION_FUEL;
        let from_reserve = cost.saturating_sub(store_fuel);
        match self.reserve_fuel.checked_sub(from_reserve) {
            Some(left) => self.reserve_fuel = left,
            None => {
                self.reserve_fuel = 0;
                self.is_out_of_fuel = true;
                return None;
            }
        }
        if self.is_late() { None } else { Some(store_fuel.saturating_sub(cost)) }
    }

    /// A part of a module's memory; `None` if it is outside. Languages give an empty part any
    /// pointer.
    pub fn part<'m>(&mut self, memory: &'m [u8], from: u32, len: u32) -> Option<&'m [u8]> {
        if len == 0 {
            return Some(&[]);
        }
        self.moved_bytes += u64::from(len);
        memory.get(from as usize..)?.get(..len as usize)
    }

    /// Keeps the result of a function, and returns the number that the module gets.
    fn reply(&mut self, result: Result<Bytes>) -> i64 {
        match result {
            Ok(bytes) => {
                self.result = bytes;
                self.last_error = None;
                self.moved_bytes += self.result.len() as u64;
                self.result.len() as i64
            }
            Err(error) => {
                let errno = error.kind().row().errno;
                self.result = Bytes::new();
                self.last_error = Some(error);
                -i64::from(errno)
            }
        }
    }

    fn reply_done(&mut self, done: Result<()>) -> i64 {
        self.reply(done.map(|()| Bytes::new()))
    }

    /// The native method may declare more than the module's method does.
    fn check_reads(&mut self) -> Result<()> {
        // The earlier result is freed before the next one is charged.
        self.result = Bytes::new();
        self.check_declared(self.call.reads, "reads")
    }

    fn check_writes(&mut self) -> Result<()> {
        self.check_declared(self.call.writes, "writes")?;
        self.changes += 1;
        if self.changes > CHANGES_MAX {
            let message =
                "the method makes too many changes in one call; combine changes, or make several calls";
            return Err(Error::limit_exceeded(message).with("changes_max", CHANGES_MAX));
        }
        Ok(())
    }

    fn check_declared(&mut self, is_declared: bool, what: &'static str) -> Result<()> {
        if is_declared {
            return Ok(());
        }
        Err(undeclared(self.undeclared.get_or_insert(what)))
    }

    pub fn input(&mut self) -> i64 {
        let input = self.call.input.clone();
        self.reply(Ok(input))
    }

    /// `None` if the memory or the result is shorter.
    pub fn take(&mut self, memory: &mut [u8], to: u32, offset: u32, len: u32) -> Option<()> {
        if len == 0 {
            return Some(());
        }
        self.moved_bytes += u64::from(len);
        let from = self.result.get(offset as usize..)?.get(..len as usize)?;
        memory.get_mut(to as usize..)?.get_mut(..len as usize)?.copy_from_slice(from);
        Some(())
    }

    pub fn output(&mut self, data: &[u8]) -> i64 {
        let appended = self.append_output(data);
        self.reply_done(appended)
    }

    fn append_output(&mut self, data: &[u8]) -> Result<()> {
        if self.output.len() + data.len() > limits::METHOD_OUTPUT_BYTES_MAX {
            return Err(Error::limit_exceeded("the method's output is too large")
                .with("len_bytes_max", limits::METHOD_OUTPUT_BYTES_MAX));
        }
        self.context.get().charge_memory(data.len() as u64)?;
        self.output.extend_from_slice(data);
        Ok(())
    }

    pub fn fail(&mut self, text: &[u8]) {
        self.message = Some(text_of(text, ERROR_TEXT_BYTES_MAX));
    }

    pub fn log(&mut self, level: u32, text: &[u8]) {
        if self.log_lines < LOG_LINES_MAX {
            self.log_lines += 1;
            // An OSD always writes errors to its log, and users must not fill that.
            let level = if level == 0 { LogLevel::Debug } else { LogLevel::Info };
            self.context.get().log(level, &text_of(text, LOG_TEXT_BYTES_MAX));
        }
    }

    pub fn stat(&mut self) -> i64 {
        let stat = self.context.get().stat().map(|stat| {
            let mut bytes = Vec::with_capacity(16);
            bytes.put_u64(stat.size_bytes);
            bytes.put_u64(stat.modified_unix_ns);
            bytes.into()
        });
        self.reply(stat)
    }

    pub fn read(&mut self, offset: u64, len: u64) -> i64 {
        let data = self.check_reads().and_then(|()| self.context.get().read(offset, len));
        self.reply(data)
    }

    pub fn get_xattr(&mut self, name: &[u8]) -> i64 {
        let name = text(name);
        let value = self.check_reads().and_then(|()| self.context.get().get_xattr(name?));
        self.reply(value)
    }

    pub fn list_xattrs(&mut self) -> i64 {
        let xattrs = self.check_reads().and_then(|()| self.context.get().list_xattrs()).map(|xattrs| {
            encode_entries(Vec::new(), xattrs.iter().map(|(name, value)| (name.as_bytes(), &value[..])))
        });
        self.reply(xattrs)
    }

    pub fn omap_get(&mut self, keys: &[u8]) -> i64 {
        let found = self
            .check_reads()
            .and_then(|()| self.context.get().omap_get(&decode(keys, keys_of)?))
            .map(|entries| {
                encode_entries(Vec::new(), entries.iter().map(|(key, value)| (&key[..], &value[..])))
            });
        self.reply(found)
    }

    pub fn omap_range(&mut self, after: Option<&[u8]>, prefix: &[u8], entries_max: u32) -> i64 {
        let page = self
            .check_reads()
            .and_then(|()| self.context.get().omap_range(after, prefix, entries_max as usize))
            .map(|page| {
                let entries = page.entries.iter().map(|(key, value)| (&key[..], &value[..]));
                encode_entries(vec![u8::from(page.more)], entries)
            });
        self.reply(page)
    }

    pub fn create(&mut self, exclusive: u32) -> i64 {
        let done = self.check_writes().and_then(|()| self.context.get().create(exclusive != 0));
        self.reply_done(done)
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> i64 {
        let done =
            self.check_writes().and_then(|()| self.context.get().write(offset, Bytes::copy_from_slice(data)));
        self.reply_done(done)
    }

    pub fn write_full(&mut self, data: &[u8]) -> i64 {
        let done =
            self.check_writes().and_then(|()| self.context.get().write_full(Bytes::copy_from_slice(data)));
        self.reply_done(done)
    }

    pub fn append(&mut self, data: &[u8]) -> i64 {
        let done = self.check_writes().and_then(|()| self.context.get().append(Bytes::copy_from_slice(data)));
        self.reply_done(done)
    }

    pub fn truncate(&mut self, size: u64) -> i64 {
        let done = self.check_writes().and_then(|()| self.context.get().truncate(size));
        self.reply_done(done)
    }

    pub fn zero(&mut self, offset: u64, len: u64) -> i64 {
        let done = self.check_writes().and_then(|()| self.context.get().zero(offset, len));
        self.reply_done(done)
    }

    pub fn remove(&mut self) -> i64 {
        let done = self.check_writes().and_then(|()| self.context.get().remove());
        self.reply_done(done)
    }

    pub fn set_xattr(&mut self, name: &[u8], value: &[u8]) -> i64 {
        let name = text(name);
        let done = self
            .check_writes()
            .and_then(|()| self.context.get().set_xattr(name?, Bytes::copy_from_slice(value)));
        self.reply_done(done)
    }

    pub fn omap_set(&mut self, entries: &[u8]) -> i64 {
        let done =
            self.check_writes().and_then(|()| self.context.get().omap_set(decode(entries, entries_of)?));
        self.reply_done(done)
    }

    pub fn omap_remove(&mut self, keys: &[u8]) -> i64 {
        let done = self.check_writes().and_then(|()| self.context.get().omap_remove(&decode(keys, keys_of)?));
        self.reply_done(done)
    }

    pub fn call(&mut self, class: &[u8], method: &[u8], input: &[u8]) -> i64 {
        let output = self.call_native(class, method, input);
        self.reply(output)
    }

    fn call_native(&mut self, class: &[u8], method: &[u8], input: &[u8]) -> Result<Bytes> {
        self.result = Bytes::new();
        let method = callee(text(class)?, text(method)?)?;
        if method.flags.contains(MethodFlags::READ) {
            self.check_reads()?;
        }
        if method.flags.contains(MethodFlags::WRITE) {
            self.check_writes()?;
        }
        let context = self.context.get();
        let began = context.monotonic();
        let output = context.call(method, input);
        // Native code uses no fuel. An instruction takes about 1 ns.
        let took = context.monotonic().saturating_sub(began);
        self.moved_bytes += u64::try_from(took.as_nanos()).unwrap_or(u64::MAX / 2);
        output
    }

    pub fn omap_clear(&mut self) -> i64 {
        let done = self.check_writes().and_then(|()| self.context.get().omap_clear());
        self.reply_done(done)
    }
}

fn undeclared(what: &str) -> Error {
    Error::class_failed(format!("the method {what}, which its manifest does not declare"))
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| Error::invalid_argument("a name is not UTF-8"))
}

fn text_of(bytes: &[u8], len_max: usize) -> String {
    String::from_utf8_lossy(&bytes[..bytes.len().min(len_max)]).into_owned()
}

fn encode_entries<'a>(
    mut bytes: Vec<u8>,
    entries: impl ExactSizeIterator<Item = (&'a [u8], &'a [u8])>,
) -> Bytes {
    bytes.put_len(entries.len());
    for (key, value) in entries {
        bytes.put_bytes(key);
        bytes.put_bytes(value);
    }
    bytes.into()
}

/// Decodes a list that a module passed. It begins with the count of its items.
fn decode<T>(bytes: &[u8], value: impl FnOnce(&mut Decoder<'_>) -> Decoded<T>) -> Result<T> {
    let items = Decoder::copying(bytes).len(0).unwrap_or_default();
    if items > LIST_ITEMS_MAX {
        return Err(Error::limit_exceeded("the list has too many items; make several calls")
            .with("items_max", LIST_ITEMS_MAX));
    }
    let mut decoder = Decoder::copying(bytes);
    value(&mut decoder)
        .and_then(|value| decoder.end().map(|()| value))
        .map_err(|Malformed| Error::invalid_argument("the list of keys or entries is malformed"))
}

fn keys_of(decoder: &mut Decoder<'_>) -> Decoded<Vec<Bytes>> {
    let count = decoder.len(4)?;
    (0..count).map(|_| decoder.bytes()).collect()
}

fn entries_of(decoder: &mut Decoder<'_>) -> Decoded<BTreeMap<Bytes, Bytes>> {
    let count = decoder.len(8)?;
    (0..count).map(|_| Ok((decoder.bytes()?, decoder.bytes()?))).collect()
}

/// The error of a call that needs more fuel than it has.
pub(crate) fn out_of_fuel() -> Error {
    let message = "the method needs more fuel than its limit; give it less to do in one call, or more fuel";
    Error::limit_exceeded(message)
}

fn out_of_memory() -> Error {
    let message =
        "the method needs more memory than its limit; give it less to do in one call, or more memory";
    Error::limit_exceeded(message)
}

/// Defines `link` for a runtime, which adds the functions of the interface to a linker. Both
/// runtimes have the same types and methods for that. `$parts` is a function that returns the
/// module's memory and the [`Host`]; `$error` makes the error of a trap.
#[macro_export]
macro_rules! define_link {
    ($parts:ident, $error:expr) => {
        fn link(linker: &mut Linker<Data>) -> Result<(), Error> {
            $crate::add_wasi! { linker, $parts, $error }
            $crate::add_functions! { linker, $crate::host::IMPORTS, $parts, $error;
                "input" |host, _memory| Some(host.input());
                "take" |host, memory, to: u32, offset: u32, len: u32| host.take(memory, to, offset, len);
                "output" |host, memory, from: u32, len: u32| {
                    host.part(memory, from, len).map(|data| host.output(data))
                };
                "fail" |host, memory, from: u32, len: u32| host.part(memory, from, len).map(|text| host.fail(text));
                "log" |host, memory, level: u32, from: u32, len: u32| {
                    host.part(memory, from, len).map(|text| host.log(level, text))
                };
                "stat" |host, _memory| Some(host.stat());
                "read" |host, _memory, offset: u64, len: u64| Some(host.read(offset, len));
                "get_xattr" |host, memory, name: u32, len: u32| {
                    host.part(memory, name, len).map(|name| host.get_xattr(name))
                };
                "list_xattrs" |host, _memory| Some(host.list_xattrs());
                "omap_get" |host, memory, keys: u32, len: u32| {
                    host.part(memory, keys, len).map(|keys| host.omap_get(keys))
                };
                "omap_range" |host, memory, after: u32, after_len: u32, prefix: u32, prefix_len: u32, max: u32| {
                    let is_first = after == u32::MAX;
                    let after = if is_first { Some(&[][..]) } else { host.part(memory, after, after_len) };
                    after.zip(host.part(memory, prefix, prefix_len)).map(|(after, prefix)| {
                        host.omap_range(Some(after).filter(|_| !is_first), prefix, max)
                    })
                };
                "create" |host, _memory, exclusive: u32| Some(host.create(exclusive));
                "write" |host, memory, offset: u64, from: u32, len: u32| {
                    host.part(memory, from, len).map(|data| host.write(offset, data))
                };
                "write_full" |host, memory, from: u32, len: u32| {
                    host.part(memory, from, len).map(|data| host.write_full(data))
                };
                "append" |host, memory, from: u32, len: u32| {
                    host.part(memory, from, len).map(|data| host.append(data))
                };
                "truncate" |host, _memory, size: u64| Some(host.truncate(size));
                "zero" |host, _memory, offset: u64, len: u64| Some(host.zero(offset, len));
                "remove" |host, _memory| Some(host.remove());
                "set_xattr" |host, memory, name: u32, name_len: u32, value: u32, value_len: u32| {
                    let name = host.part(memory, name, name_len);
                    name.zip(host.part(memory, value, value_len)).map(|(name, value)| host.set_xattr(name, value))
                };
                "omap_set" |host, memory, entries: u32, len: u32| {
                    host.part(memory, entries, len).map(|entries| host.omap_set(entries))
                };
                "omap_remove" |host, memory, keys: u32, len: u32| {
                    host.part(memory, keys, len).map(|keys| host.omap_remove(keys))
                };
                "call" |host, memory, class: u32, class_len: u32, method: u32, method_len: u32, input: u32, input_len: u32| {
                    let class = host.part(memory, class, class_len);
                    let names = class.zip(host.part(memory, method, method_len));
                    names.zip(host.part(memory, input, input_len))
                        .map(|((class, method), input)| host.call(class, method, input))
                };
                "omap_clear" |host, _memory| Some(host.omap_clear());
            }
            Ok(())
        }
    };
}

/// Adds each function to a linker, for [`define_link!`](crate::define_link). `None` from a body
/// means a pointer outside the module's memory.
#[macro_export]
macro_rules! add_functions {
    ($linker:ident, $imports:expr, $parts:ident, $error:expr;
     $($name:literal |$host:ident, $memory:ident $(, $argument:ident: $type:ty)*| $body:expr;)*) => {
        $(
            $linker.func_wrap(
                $imports,
                $name,
                |mut caller: Caller<'_, Data> $(, $argument: $type)*| {
                    let fuel = caller.get_fuel()?;
                    let ($memory, $host) = $parts(&mut caller)?;
                    let value = $body;
                    let Some(value) = value else {
                        return Err($host.fault("the module passed a pointer outside its memory, or took more than the last result has", $error));
                    };
                    let left = $host.pay(fuel);
                    caller.set_fuel(left.unwrap_or(0))?;
                    match left {
                        Some(_) => Ok(value),
                        None => Err($error("the call has used its fuel or its time")),
                    }
                },
            )?;
        )*
    };
}
