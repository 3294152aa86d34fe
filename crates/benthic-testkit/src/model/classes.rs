//! The class methods that a case calls, as the oracle implements them.

use super::oracle::Object;
use benthic_core::ClassCall;
use benthic_core::ErrorKind::{
    self, AlreadyExists, Busy, ClassFailed, Corrupt, InvalidArgument, NotFound, Unsupported,
};
use bytes::Bytes;
use md5::{Digest, Md5};
use proptest::prelude::Strategy;
use proptest::sample::select;
use serde_json::json;

const GREETING_XATTR: &str = "hello.greeting";
const SEEN_XATTR: &str = "hello.seen";
const MD5_XATTR: &str = "digest.md5";

type Call = (&'static str, &'static str, &'static str);

const WRITE_CALLS: [Call; 11] = [
    ("hello", "record", "Ada"),
    ("hello", "append_line", "tail"),
    ("hello", "old_and_new", ""),
    ("hello", "old_and_new", "\"tail\""),
    ("hello", "nothing", ""),
    ("hello", "fail_after_writing", ""),
    ("hello", "errno", "busy"),
    ("hello", "read_after_write", "data"),
    ("hello", "read_undeclared", ""),
    ("digest", "md5", ""),
    ("digest", "md5", r#"{"repeat":2}"#),
];
const READ_CALLS: [Call; 5] = [
    ("hello", "say", "Ada"),
    ("hello", "replay", ""),
    ("hello", "write_undeclared", ""),
    ("digest", "compute", "md5"),
    ("digest", "verify", "md5"),
];

pub(crate) fn write_call() -> impl Strategy<Value = ClassCall> {
    select(&WRITE_CALLS[..]).prop_map(class_call)
}

pub(crate) fn read_call() -> impl Strategy<Value = ClassCall> {
    select(&READ_CALLS[..]).prop_map(class_call)
}

fn class_call((class, method, input): Call) -> ClassCall {
    ClassCall::new(class, method, input)
}

/// The result of a call that succeeds.
pub(crate) struct CallResult {
    pub(crate) output: Bytes,
    pub(crate) touched: bool,
}

/// Changes the oracle's object as the method changes a real one.
pub(crate) fn call(object: &mut Option<Object>, call: &ClassCall) -> Result<CallResult, ErrorKind> {
    let input = str::from_utf8(&call.input).map_err(|_| InvalidArgument)?;
    match (call.class.as_str(), call.method.as_str(), object) {
        ("hello", "record", Some(_)) => Err(AlreadyExists),
        ("hello", "record", object @ None) => {
            let greeting = greeting(input);
            let xattrs = [(GREETING_XATTR.to_owned(), greeting.clone())].into();
            *object = Some(Object { data: greeting.to_vec(), xattrs, ..Object::default() });
            WROTE
        }
        ("hello", "append_line", object) => {
            object.get_or_insert_default().data.extend([input.as_bytes(), b"\n"].concat());
            WROTE
        }
        ("hello", "old_and_new", object) => {
            let before = object.clone();
            let object = object.get_or_insert_default();
            object.data.extend_from_slice(if input.is_empty() { b"new" } else { input.as_bytes() });
            object.omap.insert(Bytes::from_static(b"hello.new"), Bytes::new());
            object.xattrs.insert(SEEN_XATTR.to_owned(), seen(before.as_ref(), object.data.len()));
            WROTE
        }
        ("hello", "nothing", _) => read(Bytes::new()),
        ("hello", "fail_after_writing", _) => Err(InvalidArgument),
        ("hello", "errno", _) => Err(Busy),
        ("hello", "read_after_write" | "read_undeclared", _) => Err(ClassFailed),
        // All other methods require an existing object.
        (_, _, None) => Err(NotFound),
        ("hello", "say", Some(_)) => read(greeting(input)),
        ("hello", "write_undeclared", Some(_)) => Err(ClassFailed),
        ("hello", "replay", Some(object)) => read(object.xattrs.get(GREETING_XATTR).ok_or(NotFound)?.clone()),
        ("digest", "md5", Some(object)) => {
            object.xattrs.insert(MD5_XATTR.to_owned(), Bytes::from(md5(object)));
            WROTE
        }
        ("digest", "compute", Some(object)) => read(Bytes::from(md5(object))),
        ("digest", "verify", Some(object)) => {
            let computed = md5(object);
            if object.xattrs.get(MD5_XATTR).ok_or(NotFound)? != computed.as_bytes() {
                return Err(Corrupt);
            }
            read(Bytes::from(format!(r#"{{"md5":"{computed}"}}"#)))
        }
        _ => Err(Unsupported),
    }
}

const WROTE: Result<CallResult, ErrorKind> = Ok(CallResult { output: Bytes::new(), touched: true });

fn read(output: Bytes) -> Result<CallResult, ErrorKind> {
    Ok(CallResult { output, touched: false })
}

fn greeting(name: &str) -> Bytes {
    Bytes::from(format!("Hello, {name}!"))
}

fn md5(object: &Object) -> String {
    Md5::digest(&object.data).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The output of `old_and_new`: the first 64 bytes, 8 attributes and 8 omap keys of the old object,
/// and the size of the new one.
fn seen(before: Option<&Object>, size_bytes: usize) -> Bytes {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let data = json!(before.map(|object| text(&object.data[..object.data.len().min(64)])));
    let xattrs = json!(before.map(|object| object.xattrs.keys().take(8).collect::<Vec<_>>()));
    let keys =
        json!(before.map(|object| object.omap.keys().take(8).map(|key| text(key)).collect::<Vec<_>>()));
    Bytes::from(format!(
        r#"{{"size_bytes":{size_bytes},"data":{data},"xattrs":{xattrs},"omap_keys":{keys}}}"#
    ))
}
