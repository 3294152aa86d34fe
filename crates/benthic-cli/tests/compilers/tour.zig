//! Calls every function of `benthic.zig`.

const std = @import("std");
const benthic = @import("benthic.zig");

pub const panic = benthic.panic;

export fn show() i32 {
    return benthic.run(showAll);
}

export fn change() i32 {
    return benthic.run(changeAll);
}

export fn fail() i32 {
    return benthic.run(failWith);
}

export fn crash() i32 {
    return benthic.run(crashAt);
}

var shown: []const u8 = "";

fn add(text: []const u8) benthic.Error!void {
    shown = try std.mem.concat(benthic.allocator, u8, &.{ shown, text });
}

fn addEntries(entries: []const benthic.Entry) benthic.Error!void {
    for (entries) |entry| {
        try add(entry.key);
        try add("=");
        try add(entry.value);
        try add(",");
    }
    try add("|");
}

fn showAll(input: []const u8) benthic.Error![]const u8 {
    benthic.log("show");
    try add(input);
    try add(if ((try benthic.stat()).size_bytes == 6) "|six|" else "|?|");
    try add(try benthic.read(1, 2));
    try add("|");
    try add(try benthic.getXattr("name"));
    if (benthic.getXattr("none")) |_| {} else |err| try add(if (err == error.NotFound) "|none|" else "|?|");
    try addEntries(try benthic.listXattrs());
    try addEntries(try benthic.omapGet(&.{ "k1", "k9" }));
    const first = try benthic.omapRange(null, "k", 2);
    try addEntries(first.entries);
    try add(if (first.more) "more|" else "end|");
    const last = try benthic.omapRange("k2", "k", 9);
    try addEntries(last.entries);
    try add(if (last.more) "more|" else "end|");
    try add(try benthic.call("hello", "say", "Ada"));
    return shown;
}

fn changeAll(_: []const u8) benthic.Error![]const u8 {
    try benthic.remove();
    try benthic.create(true);
    try benthic.writeFull("abc");
    try benthic.append("defgh");
    try benthic.write(1, "B");
    try benthic.zero(2, 1);
    try benthic.truncate(6);
    try benthic.setXattr("name", "value");
    try benthic.setXattr("empty", "");
    try benthic.omapClear();
    try benthic.omapSet(&.{
        .{ .key = "k1", .value = "1" },
        .{ .key = "k2", .value = "" },
        .{ .key = "k3", .value = "3" },
        .{ .key = "k4", .value = "4" },
    });
    try benthic.omapRemove(&.{"k4"});
    return "";
}

fn failWith(input: []const u8) benthic.Error![]const u8 {
    return benthic.fail(error.AlreadyExists, input);
}

fn crashAt(input: []const u8) benthic.Error![]const u8 {
    const bytes = [_]u8{ 1, 2, 3 };
    return bytes[input.len..1];
}
