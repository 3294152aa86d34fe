//! The native classes `hello` and `digest` as a WebAssembly module. Their own code runs on an
//! [`ObjectAccess`](benthic_core::ObjectAccess) over the functions of the interface, through the
//! same `call_method` as in every engine. The tests run the conformance suite's cases of classes on
//! it (`tests/it/native.rs`).
//!
//! The crate is empty for other targets.

#![cfg(target_arch = "wasm32")]

#[path = "../../../guest/benthic.rs"]
mod benthic;
mod guest_object;

use benthic::Object;
use benthic_classes::{digest::Digest, hello::Hello};
use benthic_core::{Class, Error, ManualClock, MethodLimits, call_method};
use guest_object::{GuestObject, has_host_message};

/// Runs a method of one of the classes, which have no equal method names.
fn call(method: &str, object: &mut Object, input: &[u8]) -> benthic::Result<Vec<u8>> {
    let classes: [&'static dyn Class; 2] = [&Hello, &Digest];
    let method = classes.iter().flat_map(|class| class.methods()).find(|candidate| candidate.name == method);
    let method = method.ok_or("the classes have no such method")?;
    // Time stands still: the host stops a call that takes too long.
    let clock = ManualClock::default();
    let ended = call_method(method, &mut GuestObject(object), &clock, MethodLimits::default(), input);
    ended.map(|output| output.to_vec()).map_err(|error| guest_error(&error))
}

fn guest_error(error: &Error) -> benthic::Error {
    // The host adds its own message to its own error.
    let message = if has_host_message(error) { String::new() } else { error.text() };
    benthic::Error::new(error.kind().row().errno, message)
}

macro_rules! methods {
    ($($name:ident)+) => {
        $(fn $name(object: &mut Object, input: &[u8]) -> benthic::Result<Vec<u8>> {
            call(stringify!($name), object, input)
        })+
        export!($($name),+);
    };
}

methods! {
    say say_hello record append_line replay old_and_new nothing fail_after_writing errno
    write_undeclared read_undeclared read_after_write panic spin swallow_deadline hoard flood
    md5 sha1 sha256 crc32c xxh3 blake3 compute verify
}
