//! A class that counts words. `class.json` describes it.

const std = @import("std");
const benthic = @import("benthic.zig");

pub const panic = benthic.panic;

export fn count() i32 {
    return benthic.run(countWords);
}

export fn keep() i32 {
    return benthic.run(keepWords);
}

var buffer: [64 * 1024]u8 = undefined;

/// Returns the number of words in the object.
fn countWords(_: []const u8) benthic.Error![]const u8 {
    var words: u64 = 0;
    var in_word = false;
    var offset: u64 = 0;
    while (true) {
        const data = try benthic.readInto(offset, &buffer);
        if (data.len == 0) break;
        for (data) |byte| {
            const is_space = std.mem.indexOfScalar(u8, " \t\n\x0c\r", byte) != null;
            if (!is_space and !in_word) words += 1;
            in_word = !is_space;
        }
        offset += data.len;
    }
    return std.fmt.allocPrint(benthic.allocator, "{d}", .{words});
}

/// Stores the number of words in the attribute `words`.
fn keepWords(input: []const u8) benthic.Error![]const u8 {
    try benthic.setXattr("words", try countWords(input));
    return "";
}
