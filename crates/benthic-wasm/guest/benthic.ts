// Benthic's functions for a class in AssemblyScript. `benthic class new --lang assemblyscript` copies this
// file into a project. An exported function is a method, which class.json describes. It returns 0, or the
// errno of an error, as `return fail(INVALID_ARGUMENT, "the object is no picture")`.
//
// A function that reads returns null if it fails; one that changes the object returns an errno or 0.
// `errno()` is the errno of the last function. `throw` ends the call with CLASS_FAILED.
//
// A method reads before it writes. All its changes take effect together, or none does if it fails. The
// output of a method that writes is dropped: such a method stores its result in an attribute
// (result_xattr in class.json).

export const NOT_FOUND: i32 = 2;
export const CLASS_FAILED: i32 = 5;
export const BUSY: i32 = 16;
export const ALREADY_EXISTS: i32 = 17;
export const INVALID_ARGUMENT: i32 = 22;
export const LIMIT_EXCEEDED: i32 = 27;
export const CORRUPT: i32 = 74;
export const CONFLICT: i32 = 125;

@external("benthic_1", "input") declare function host_input(): i64;
@external("benthic_1", "take") declare function host_take(to: usize, offset: u32, len: u32): void;
@external("benthic_1", "output") declare function host_output(from: usize, len: u32): i64;
@external("benthic_1", "fail") declare function host_fail(from: usize, len: u32): void;
@external("benthic_1", "log") declare function host_log(level: u32, from: usize, len: u32): void;
@external("benthic_1", "stat") declare function host_stat(): i64;
@external("benthic_1", "read") declare function host_read(offset: u64, len: u64): i64;
@external("benthic_1", "get_xattr") declare function host_get_xattr(name: usize, len: u32): i64;
@external("benthic_1", "list_xattrs") declare function host_list_xattrs(): i64;
@external("benthic_1", "omap_get") declare function host_omap_get(keys: usize, len: u32): i64;
@external("benthic_1", "omap_range") declare function host_omap_range(after: usize, after_len: u32, prefix: usize, prefix_len: u32, max: u32): i64;
@external("benthic_1", "create") declare function host_create(exclusive: u32): i64;
@external("benthic_1", "write") declare function host_write(offset: u64, data: usize, len: u32): i64;
@external("benthic_1", "write_full") declare function host_write_full(data: usize, len: u32): i64;
@external("benthic_1", "append") declare function host_append(data: usize, len: u32): i64;
@external("benthic_1", "truncate") declare function host_truncate(size: u64): i64;
@external("benthic_1", "zero") declare function host_zero(offset: u64, len: u64): i64;
@external("benthic_1", "remove") declare function host_remove(): i64;
@external("benthic_1", "set_xattr") declare function host_set_xattr(name: usize, name_len: u32, value: usize, value_len: u32): i64;
@external("benthic_1", "omap_set") declare function host_omap_set(entries: usize, len: u32): i64;
@external("benthic_1", "omap_remove") declare function host_omap_remove(keys: usize, len: u32): i64;
@external("benthic_1", "omap_clear") declare function host_omap_clear(): i64;
@external("benthic_1", "call") declare function host_call(name: usize, name_len: u32, method: usize, method_len: u32, input: usize, input_len: u32): i64;

export class Stat {
  constructor(public sizeBytes: u64, public modifiedUnixNs: u64) {}
}

export class Entry {
  constructor(public key: Uint8Array, public value: Uint8Array) {}
}

export class Page {
  constructor(public entries: Entry[], public more: bool) {}
}

let lastErrno: i32 = 0;

/** The errno of the last function of this file, or 0. */
export function errno(): i32 {
  return lastErrno;
}

export function encode(text: string): Uint8Array {
  return Uint8Array.wrap(String.UTF8.encode(text));
}

export function decode(bytes: Uint8Array): string {
  return String.UTF8.decodeUnsafe(bytes.dataStart, bytes.length);
}

/** The input of the call. */
export function input(): Uint8Array | null {
  return take(host_input());
}

/** Appends to the output of the call. */
export function output(data: Uint8Array): i32 {
  return done(host_output(data.dataStart, data.length));
}

/** Sets the message of the error that the method is about to return, and returns its errno. */
export function fail(errno: i32, message: string): i32 {
  const text = encode(message);
  host_fail(text.dataStart, text.length);
  return errno;
}

/** Writes a line to the log of the process that runs the class. */
export function log(message: string): void {
  const text = encode(message);
  host_log(1, text.dataStart, text.length);
}

export function stat(): Stat | null {
  const bytes = take(host_stat());
  if (!bytes) return null;
  return new Stat(load<u64>(bytes.dataStart), load<u64>(bytes.dataStart, 8));
}

/** Reads data; short if the range crosses the end of the object. */
export function read(offset: u64, len: u64): Uint8Array | null {
  return take(host_read(offset, len));
}

/** Reads data into a buffer that can be used again. Returns its length, or -1. */
export function readInto(offset: u64, buffer: Uint8Array): i32 {
  const len = host_read(offset, buffer.length);
  if (done(len)) return -1;
  host_take(buffer.dataStart, 0, <u32>len);
  return <i32>len;
}

export function getXattr(name: string): Uint8Array | null {
  const bytes = encode(name);
  return take(host_get_xattr(bytes.dataStart, bytes.length));
}

export function listXattrs(): Entry[] | null {
  const list = take(host_list_xattrs());
  return list ? entriesOf(list, 0) : null;
}

/** The entries of those keys that exist. */
export function omapGet(keys: Uint8Array[]): Entry[] | null {
  const encoded = encodeParts(keys, keys.length);
  const list = take(host_omap_get(encoded.dataStart, encoded.length));
  return list ? entriesOf(list, 0) : null;
}

/** At most `max` entries with the prefix, in the order of the keys, from the first key after `after`. */
export function omapRange(after: Uint8Array | null, prefix: Uint8Array, max: u32): Page | null {
  const from = after ? after.dataStart : <usize>-1;
  const len = after ? after.length : 0;
  const page = take(host_omap_range(from, len, prefix.dataStart, prefix.length, max));
  return page ? new Page(entriesOf(page, 1), page[0] != 0) : null;
}

export function create(exclusive: bool): i32 {
  return done(host_create(exclusive ? 1 : 0));
}

export function write(offset: u64, data: Uint8Array): i32 {
  return done(host_write(offset, data.dataStart, data.length));
}

export function writeFull(data: Uint8Array): i32 {
  return done(host_write_full(data.dataStart, data.length));
}

/** Writes at the end. A second run appends again. */
export function append(data: Uint8Array): i32 {
  return done(host_append(data.dataStart, data.length));
}

export function truncate(size: u64): i32 {
  return done(host_truncate(size));
}

export function zero(offset: u64, len: u64): i32 {
  return done(host_zero(offset, len));
}

export function remove(): i32 {
  return done(host_remove());
}

export function setXattr(name: string, value: Uint8Array): i32 {
  const bytes = encode(name);
  return done(host_set_xattr(bytes.dataStart, bytes.length, value.dataStart, value.length));
}

export function omapSet(entries: Entry[]): i32 {
  const parts = new Array<Uint8Array>();
  for (let i = 0; i < entries.length; i++) {
    parts.push(entries[i].key);
    parts.push(entries[i].value);
  }
  const encoded = encodeParts(parts, entries.length);
  return done(host_omap_set(encoded.dataStart, encoded.length));
}

export function omapRemove(keys: Uint8Array[]): i32 {
  const encoded = encodeParts(keys, keys.length);
  return done(host_omap_remove(encoded.dataStart, encoded.length));
}

export function omapClear(): i32 {
  return done(host_omap_clear());
}

/** Calls a method of a native class, such as `digest`, beside the same object. */
export function call(className: string, method: string, input: Uint8Array): Uint8Array | null {
  const name = encode(className);
  const called = encode(method);
  return take(host_call(name.dataStart, name.length, called.dataStart, called.length, input.dataStart, input.length));
}

/** The compiler calls this for `throw` and failed assertions. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  const where = file ? file + ":" + line.toString() + ":" + column.toString() : "";
  fail(CLASS_FAILED, (message ? message : "the method called abort") + (where ? " at " + where : ""));
  unreachable();
}

function done(result: i64): i32 {
  lastErrno = result < 0 ? <i32>-result : 0;
  return lastErrno;
}

/** The result of the last function. */
function take(result: i64): Uint8Array | null {
  if (done(result)) return null;
  const bytes = new Uint8Array(<i32>result);
  host_take(bytes.dataStart, 0, <u32>result);
  return bytes;
}

/** A count, and each part after its length. */
function encodeParts(parts: Uint8Array[], count: u32): Uint8Array {
  let len = 4;
  for (let i = 0; i < parts.length; i++) len += 4 + parts[i].length;
  const list = new Uint8Array(len);
  store<u32>(list.dataStart, count);
  let at = 4;
  for (let i = 0; i < parts.length; i++) {
    const part = parts[i];
    store<u32>(list.dataStart + at, part.length);
    list.set(part, at + 4);
    at += 4 + part.length;
  }
  return list;
}

function entriesOf(list: Uint8Array, from: i32): Entry[] {
  let at = from;
  const count = load<u32>(list.dataStart + at);
  at += 4;
  const entries = new Array<Entry>();
  for (let i: u32 = 0; i < count; i++) {
    const keyLen = load<u32>(list.dataStart + at);
    const key = list.slice(at + 4, at + 4 + keyLen);
    at += 4 + keyLen;
    const valueLen = load<u32>(list.dataStart + at);
    entries.push(new Entry(key, list.slice(at + 4, at + 4 + valueLen)));
    at += 4 + valueLen;
  }
  return entries;
}
