//! A class for learning: what a method sees, what it leaves behind, and what happens to a method
//! that misbehaves.
//!
//! - [`greet`]: ordinary methods, one of each sort.
//! - [`semantics`]: what a method sees of its own operation, and what a failed method leaves
//!   behind.
//! - [`misbehave`]: methods that break the rules. An engine must survive each of them, leave the
//!   object unchanged, and answer the next call.

pub mod greet;
pub mod misbehave;
pub mod semantics;
#[cfg(test)]
mod tests;
pub mod wire;

use benthic_core::{Class, Method, MethodFlags, MethodResult};

/// The attribute in which [`record`](greet::record) stores the greeting.
pub const GREETING_XATTR: &str = "hello.greeting";
/// The attribute in which methods of [`semantics`] store their observations.
pub const OBSERVATION_XATTR: &str = "hello.seen";

/// The `hello` class.
pub struct Hello;

impl Class for Hello {
    fn name(&self) -> &'static str {
        "hello"
    }

    fn version(&self) -> u32 {
        1
    }

    fn summary(&self) -> &'static str {
        "an example that shows what methods may do, and how an engine stops methods that break the rules"
    }

    fn methods(&self) -> &'static [Method] {
        &METHODS
    }
}

static METHODS: [Method; 17] = [
    Method {
        name: "say",
        flags: MethodFlags::READ,
        run: greet::say,
        result: MethodResult::Output,
        summary: "returns a greeting; the object must exist",
        input: "a name of at most 100 bytes (default: world)",
        output: "the greeting",
        examples: &["", "Ada"],
    },
    Method {
        name: "say_hello",
        flags: MethodFlags::READ,
        run: greet::say_hello,
        result: MethodResult::Output,
        summary: "returns a greeting, as Ceph's own class hello does; the object must exist",
        input: "a name of at most 100 bytes (default: world)",
        output: "the greeting",
        examples: &["", "Ada"],
    },
    Method {
        name: "record",
        flags: MethodFlags::WRITE,
        run: greet::record,
        result: MethodResult::Xattr(GREETING_XATTR),
        summary: "creates an object with a greeting; already_exists if the object exists",
        input: "a name of at most 100 bytes (default: world)",
        output: "the greeting",
        examples: &["", "Ada"],
    },
    Method {
        name: "append_line",
        flags: MethodFlags::WRITE,
        run: greet::append_line,
        result: MethodResult::Nothing,
        summary: "appends a line to the object; two runs append two lines",
        input: "the line",
        output: "nothing",
        examples: &["low tide at 06:12"],
    },
    Method {
        name: "replay",
        flags: MethodFlags::READ,
        run: greet::replay,
        result: MethodResult::Output,
        summary: "returns the greeting that record stored; not_found if there is none",
        input: "nothing",
        output: "the greeting",
        examples: &[""],
    },
    Method {
        name: "old_and_new",
        flags: MethodFlags::READ_WRITE,
        run: semantics::old_and_new,
        result: MethodResult::Xattr(OBSERVATION_XATTR),
        summary: "reads the object, appends to it, and stores the old content and the new size as an attribute",
        input: "the data to append (default: \"new\")",
        output: "JSON: the old content and the new size",
        examples: &["", "more data"],
    },
    Method {
        name: "nothing",
        flags: MethodFlags::READ_WRITE,
        run: semantics::nothing,
        result: MethodResult::Nothing,
        summary: "declares that it writes, but writes nothing: creates no object, changes no version",
        input: "nothing",
        output: "nothing",
        examples: &[""],
    },
    Method {
        name: "fail_after_writing",
        flags: MethodFlags::READ_WRITE,
        run: semantics::fail_after_writing,
        result: MethodResult::Nothing,
        summary: "writes, then fails: all its changes are discarded",
        input: "nothing",
        output: "the error invalid_argument",
        examples: &[""],
    },
    Method {
        name: "errno",
        flags: MethodFlags::READ_WRITE,
        run: semantics::errno,
        result: MethodResult::Nothing,
        summary: "writes, then fails with the requested error kind, which reaches the caller",
        input: "the name of an error kind, such as not_found",
        output: "that error",
        examples: &["busy", "not_found"],
    },
    Method {
        name: "write_undeclared",
        flags: MethodFlags::READ,
        run: misbehave::write_undeclared,
        result: MethodResult::Output,
        summary: "writes, but declares only reads",
        input: "append to append, or nothing to write everywhere",
        output: "the error class_failed",
        examples: &[""],
    },
    Method {
        name: "read_undeclared",
        flags: MethodFlags::WRITE,
        run: misbehave::read_undeclared,
        result: MethodResult::Nothing,
        summary: "reads, but declares only writes",
        input: "nothing",
        output: "the error class_failed",
        examples: &[""],
    },
    Method {
        name: "read_after_write",
        flags: MethodFlags::READ_WRITE,
        run: misbehave::read_after_write,
        result: MethodResult::Nothing,
        summary: "changes a part of the object, then reads it",
        input: "the part: data, appended (data by an append), xattrs or omap",
        output: "the error class_failed",
        examples: &["data", "omap"],
    },
    Method {
        name: "panic",
        flags: MethodFlags::READ_WRITE,
        run: misbehave::panic,
        result: MethodResult::Nothing,
        summary: "writes, then panics",
        input: "nothing",
        output: "the error class_failed",
        examples: &[""],
    },
    Method {
        name: "spin",
        flags: MethodFlags::READ,
        run: misbehave::spin,
        result: MethodResult::Output,
        summary: "runs until the deadline stops it",
        input: "nothing",
        output: "the error limit_exceeded, when the deadline has passed",
        examples: &[""],
    },
    Method {
        name: "swallow_deadline",
        flags: MethodFlags::READ,
        run: misbehave::swallow_deadline,
        result: MethodResult::Output,
        summary: "runs past its deadline and claims success",
        input: "nothing",
        output: "the error limit_exceeded, when the deadline has passed",
        examples: &[""],
    },
    Method {
        name: "hoard",
        flags: MethodFlags::READ,
        run: misbehave::hoard,
        result: MethodResult::Output,
        summary: "charges more and more memory",
        input: "nothing",
        output: "the error limit_exceeded",
        examples: &[""],
    },
    Method {
        name: "flood",
        flags: MethodFlags::READ,
        run: misbehave::flood,
        result: MethodResult::Output,
        summary: "returns more output than permitted",
        input: "nothing",
        output: "the error limit_exceeded",
        examples: &[""],
    },
];
