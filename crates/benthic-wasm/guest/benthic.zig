//! Benthic's functions for a class in Zig. `benthic class new --lang zig` copies this file into a
//! project. A method is a function of this form:
//!
//!     fn countWords(input: []const u8) benthic.Error![]const u8
//!
//! An exported function runs it, and `class.json` describes it:
//!
//!     export fn count() i32 {
//!         return benthic.run(countWords);
//!     }
//!
//! A method reads before it writes. All its changes take effect together, or none does if it fails.
//! The output of a method that writes is dropped: such a method stores its result in an attribute
//! (`result_xattr` in `class.json`). Memory that is allocated with `allocator` need not be freed:
//! each call has a memory of its own.

const std = @import("std");

pub const allocator = std.heap.wasm_allocator;

/// The errors of a method. `Other` passes on an error of the host that is not listed here.
pub const Error = error{
    NotFound,
    ClassFailed,
    Busy,
    AlreadyExists,
    InvalidArgument,
    LimitExceeded,
    Corrupt,
    Conflict,
    Other,
    OutOfMemory,
};

pub const Stat = struct { size_bytes: u64, modified_unix_ns: u64 };
pub const Entry = struct { key: []const u8, value: []const u8 };
pub const Page = struct { entries: []Entry, more: bool };

const host = struct {
    extern "benthic_1" fn input() i64;
    extern "benthic_1" fn take(to: [*]u8, offset: u32, len: u32) void;
    extern "benthic_1" fn output(from: [*]const u8, len: usize) i64;
    extern "benthic_1" fn fail(text: [*]const u8, len: usize) void;
    extern "benthic_1" fn log(level: u32, text: [*]const u8, len: usize) void;
    extern "benthic_1" fn stat() i64;
    extern "benthic_1" fn read(offset: u64, len: u64) i64;
    extern "benthic_1" fn get_xattr(name: [*]const u8, len: usize) i64;
    extern "benthic_1" fn list_xattrs() i64;
    extern "benthic_1" fn omap_get(keys: [*]const u8, len: usize) i64;
    extern "benthic_1" fn omap_range(after: usize, after_len: usize, prefix: [*]const u8, prefix_len: usize, max: u32) i64;
    extern "benthic_1" fn create(exclusive: u32) i64;
    extern "benthic_1" fn write(offset: u64, data: [*]const u8, len: usize) i64;
    extern "benthic_1" fn write_full(data: [*]const u8, len: usize) i64;
    extern "benthic_1" fn append(data: [*]const u8, len: usize) i64;
    extern "benthic_1" fn truncate(size: u64) i64;
    extern "benthic_1" fn zero(offset: u64, len: u64) i64;
    extern "benthic_1" fn remove() i64;
    extern "benthic_1" fn set_xattr(name: [*]const u8, name_len: usize, value: [*]const u8, value_len: usize) i64;
    extern "benthic_1" fn omap_set(entries: [*]const u8, len: usize) i64;
    extern "benthic_1" fn omap_remove(keys: [*]const u8, len: usize) i64;
    extern "benthic_1" fn omap_clear() i64;
    extern "benthic_1" fn call(class: [*]const u8, class_len: usize, method: [*]const u8, method_len: usize, input: [*]const u8, input_len: usize) i64;
};

/// The errno of the last `Error.Other`.
var other_errno: i32 = 5;

/// Runs a method and returns 0 or an errno.
pub fn run(method: fn (input: []const u8) Error![]const u8) i32 {
    const bytes = take(host.input()) catch |err| return errnoOf(err);
    const result = method(bytes) catch |err| return errnoOf(err);
    done(host.output(result.ptr, result.len)) catch |err| return errnoOf(err);
    return 0;
}

/// Sets the message of the error that the method is about to return, as in
/// `return benthic.fail(error.InvalidArgument, "the object is no picture")`.
pub fn fail(err: Error, message: []const u8) Error {
    host.fail(message.ptr, message.len);
    return err;
}

/// Writes a line to the log of the process that runs the class.
pub fn log(text: []const u8) void {
    host.log(1, text.ptr, text.len);
}

pub fn stat() Error!Stat {
    const bytes = try take(host.stat());
    return .{
        .size_bytes = std.mem.readInt(u64, bytes[0..8], .little),
        .modified_unix_ns = std.mem.readInt(u64, bytes[8..16], .little),
    };
}

/// Reads data; short if the range crosses the end of the object.
pub fn read(offset: u64, len: u64) Error![]u8 {
    return take(host.read(offset, len));
}

/// Reads data into a buffer that can be used again, and returns the part that was read.
pub fn readInto(offset: u64, buffer: []u8) Error![]u8 {
    const len = try check(host.read(offset, buffer.len));
    host.take(buffer.ptr, 0, len);
    return buffer[0..len];
}

pub fn getXattr(name: []const u8) Error![]u8 {
    return take(host.get_xattr(name.ptr, name.len));
}

pub fn listXattrs() Error![]Entry {
    return entriesOf(try take(host.list_xattrs()));
}

/// The entries of those keys that exist.
pub fn omapGet(keys: []const []const u8) Error![]Entry {
    const list = try encodeKeys(keys);
    return entriesOf(try take(host.omap_get(list.ptr, list.len)));
}

/// At most `max` entries with the prefix, in the order of the keys, from the first key after `after`.
pub fn omapRange(after: ?[]const u8, prefix: []const u8, max: u32) Error!Page {
    const from = if (after) |key| @intFromPtr(key.ptr) else std.math.maxInt(usize);
    const len = if (after) |key| key.len else 0;
    const page = try take(host.omap_range(from, len, prefix.ptr, prefix.len, max));
    return .{ .more = page[0] != 0, .entries = try entriesOf(page[1..]) };
}

pub fn create(exclusive: bool) Error!void {
    try done(host.create(@intFromBool(exclusive)));
}

pub fn write(offset: u64, data: []const u8) Error!void {
    try done(host.write(offset, data.ptr, data.len));
}

pub fn writeFull(data: []const u8) Error!void {
    try done(host.write_full(data.ptr, data.len));
}

/// Writes at the end. A second run appends again.
pub fn append(data: []const u8) Error!void {
    try done(host.append(data.ptr, data.len));
}

pub fn truncate(size: u64) Error!void {
    try done(host.truncate(size));
}

pub fn zero(offset: u64, len: u64) Error!void {
    try done(host.zero(offset, len));
}

pub fn remove() Error!void {
    try done(host.remove());
}

pub fn setXattr(name: []const u8, value: []const u8) Error!void {
    try done(host.set_xattr(name.ptr, name.len, value.ptr, value.len));
}

pub fn omapSet(entries: []const Entry) Error!void {
    var len: usize = 4;
    for (entries) |entry| len += 8 + entry.key.len + entry.value.len;
    const list = try allocator.alloc(u8, len);
    var rest = put(list, entries.len);
    for (entries) |entry| rest = putBytes(putBytes(rest, entry.key), entry.value);
    try done(host.omap_set(list.ptr, list.len));
}

pub fn omapRemove(keys: []const []const u8) Error!void {
    const list = try encodeKeys(keys);
    try done(host.omap_remove(list.ptr, list.len));
}

pub fn omapClear() Error!void {
    try done(host.omap_clear());
}

/// Calls a method of a native class, such as `digest`, beside the same object.
pub fn call(class: []const u8, method: []const u8, input: []const u8) Error![]u8 {
    return take(host.call(class.ptr, class.len, method.ptr, method.len, input.ptr, input.len));
}

/// The length of a function's result, or its error. The host knows the error's message.
fn check(result: i64) Error!u32 {
    if (result >= 0) return @intCast(result);
    switch (-result) {
        2 => return error.NotFound,
        5 => return error.ClassFailed,
        16 => return error.Busy,
        17 => return error.AlreadyExists,
        22 => return error.InvalidArgument,
        27 => return error.LimitExceeded,
        74 => return error.Corrupt,
        125 => return error.Conflict,
        else => |errno| {
            other_errno = @intCast(errno);
            return error.Other;
        },
    }
}

fn errnoOf(err: Error) i32 {
    return switch (err) {
        error.NotFound => 2,
        error.ClassFailed => 5,
        error.Busy => 16,
        error.AlreadyExists => 17,
        error.InvalidArgument => 22,
        error.LimitExceeded => 27,
        error.Corrupt => 74,
        error.Conflict => 125,
        error.Other => other_errno,
        error.OutOfMemory => 27,
    };
}

fn done(result: i64) Error!void {
    _ = try check(result);
}

/// The result of the last function.
fn take(result: i64) Error![]u8 {
    const len = try check(result);
    const bytes = try allocator.alloc(u8, len);
    host.take(bytes.ptr, 0, len);
    return bytes;
}

fn put(to: []u8, number: usize) []u8 {
    std.mem.writeInt(u32, to[0..4], @intCast(number), .little);
    return to[4..];
}

fn putBytes(to: []u8, bytes: []const u8) []u8 {
    const rest = put(to, bytes.len);
    @memcpy(rest[0..bytes.len], bytes);
    return rest[bytes.len..];
}

fn encodeKeys(keys: []const []const u8) Error![]u8 {
    var len: usize = 4;
    for (keys) |key| len += 4 + key.len;
    const list = try allocator.alloc(u8, len);
    var rest = put(list, keys.len);
    for (keys) |key| rest = putBytes(rest, key);
    return list;
}

/// Takes a byte string from the front.
fn part(bytes: *[]const u8) []const u8 {
    const len = std.mem.readInt(u32, bytes.*[0..4], .little);
    const taken = bytes.*[4..][0..len];
    bytes.* = bytes.*[4 + len ..];
    return taken;
}

fn entriesOf(list: []const u8) Error![]Entry {
    const entries = try allocator.alloc(Entry, std.mem.readInt(u32, list[0..4], .little));
    var rest: []const u8 = list[4..];
    for (entries) |*entry| {
        const key = part(&rest);
        entry.* = .{ .key = key, .value = part(&rest) };
    }
    return entries;
}

/// Makes a panic's message the message of the call's error. The main file has
/// `pub const panic = benthic.panic;`.
pub const panic = std.debug.FullPanic(struct {
    fn call(message: []const u8, _: ?usize) noreturn {
        host.fail(message.ptr, message.len);
        @trap();
    }
}.call);
