//! What is fuzzed: a function for every decoder, which takes any bytes and panics if a promise is broken. The fuzzer
//! makes up bytes for them; `make test` gives them what is in `corpus/`.

#![allow(missing_docs, reason = "a target's name says it")]

// What the command line takes as values; a program is no library.
#[path = "../../crates/benthic-cli/src/units.rs"]
#[allow(dead_code, reason = "only the parsers are fuzzed")]
mod units;

use benthic_core::names::{check_namespace, check_pool_name, check_xattr_name};
use benthic_core::{
    ClassCall, ClassRegistry, ErrorKind, ListRequest, ListToken, Namespaces, ObjectAddress, ObjectId, Pool,
    PoolAddress, ReadOp, Store, StoreUri, WriteOp,
};
use benthic_embedded::{MemStore, Options, decoders};
use bytes::Bytes;
use futures::executor::block_on;
use std::fmt::Display;
use std::fs;
use std::str::FromStr;
use std::sync::Arc;

pub type Target = fn(&[u8]);

pub const TARGETS: [(&str, Target); 10] = [
    ("address", address),
    ("class", class),
    ("listing", listing),
    ("log", log),
    ("metadata", metadata),
    ("record", record),
    ("reply", reply),
    ("request", request),
    ("tables", tables),
    ("values", values),
];

/// Methods of `hello` that panic, or that take all the time or memory there is, as they say.
const MISBEHAVING: [&str; 5] = ["flood", "hoard", "panic", "spin", "swallow_deadline"];

/// URIs, addresses and names, as typed.
pub fn address(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    reparsed::<StoreUri>(text);
    reparsed::<ObjectAddress>(text);
    let _ = text.parse::<PoolAddress>();
    let _ = (check_namespace(text), check_pool_name(text), check_xattr_name(text));
}

/// What is parsed prints as something that parses to the same.
fn reparsed<T: FromStr + Display + PartialEq>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let shown = value.to_string();
        assert!(shown.parse::<T>().is_ok_and(|again| again == value), "{text:?} became {shown:?}");
    }
}

/// Any input to any method, on an object with any data, attribute and omap entry.
pub fn class(input: &[u8]) {
    let classes = benthic_classes::registry();
    let methods: Vec<_> = classes
        .describe()
        .into_iter()
        .flat_map(|class| class.methods.into_iter().map(move |method| (class.name.clone(), method.name)))
        .filter(|(class, method)| class != "hello" || !MISBEHAVING.contains(&method.as_str()))
        .collect();
    let mut parts = Parts(input);
    let (class, method) = methods[usize::from(parts.byte()) % methods.len()].clone();
    let mut op = WriteOp::new().write_full(parts.bytes());
    let (name, value) = (parts.bytes(), parts.bytes());
    if let Ok(name) = String::from_utf8(name.to_vec())
        && check_xattr_name(&name).is_ok()
    {
        op = op.set_xattr(name, value);
    }
    let (key, value) = (parts.bytes(), parts.bytes());
    if !key.is_empty() {
        op = op.omap_set([(key, value)]);
    }
    let pool = pool(benthic_classes::registry());
    let object = ObjectId::new("o").expect("a valid name");
    block_on(pool.write(&object, op)).expect("the object is within the limits");
    let content = || {
        let op = ReadOp::new().read(0, 1 << 20).list_xattrs().omap_range(None, "", 1_000);
        block_on(pool.read(&object, op)).map(|reply| reply.outputs).expect("it can be read")
    };
    let before = content();
    let call =
        ClassCall { class: class.clone(), method: method.clone(), input: Bytes::copy_from_slice(parts.0) };
    if let Err(error) = block_on(pool.exec(&object, call)) {
        assert_eq!(content(), before, "{class}.{method} failed and changed the object");
        let defect = matches!(error.kind(), ErrorKind::ClassFailed | ErrorKind::Internal);
        // `hello` shows what happens to methods that break the rules, and fails with any kind it is asked for.
        assert!(class == "hello" || !defect, "{class}.{method}: {error}");
    }
}

/// Tokens, prefixes and namespaces of listings: a token leads behind itself or is refused.
pub fn listing(input: &[u8]) {
    decoders::token(input);
    let mut parts = Parts(input);
    let (flags, token) = (parts.byte(), parts.bytes());
    let text = |bytes: Bytes| String::from_utf8_lossy(&bytes).into_owned();
    let (namespace, prefix) = (text(parts.bytes()), text(parts.bytes()));
    let pool = pool(benthic_classes::registry());
    let mut objects = Vec::new();
    for (space, name) in [("", "a"), ("", "ab"), ("n", "a"), (&namespace, &prefix)] {
        if let Ok(id) = ObjectId::in_namespace(space, name) {
            block_on(pool.write_full(&id, "")).expect("it can be written");
            objects.push(id);
        }
    }
    let namespaces = if flags & 1 == 0 { Namespaces::All } else { Namespaces::One(namespace) };
    let mut request = ListRequest {
        namespaces,
        prefix,
        after: (flags & 2 != 0).then_some(ListToken(token)),
        objects_max: usize::from(flags >> 2),
    };
    let mut found = 0;
    while let Ok(page) = block_on(pool.list(request.clone())) {
        found += page.objects.len();
        assert!(found <= objects.len(), "an object is listed twice");
        request.after = page.next;
        if request.after.is_none() {
            break;
        }
    }
}

/// Segments of a log, most of them with valid checksums, for behind those is the rest of the decoder.
pub fn log(input: &[u8]) {
    let mut parts = Parts(input);
    let (flags, applied_lsn) = (parts.byte(), u64::from(parts.byte()));
    let dir = tempfile::Builder::new().prefix("benthic-fuzz").tempdir().expect("a directory can be made");
    for index in 0..=flags >> 4 {
        let mut segment = if index == flags >> 4 { parts.0.to_vec() } else { parts.bytes().to_vec() };
        if flags & 1 == 0 {
            decoders::seal(&mut segment);
        }
        // A segment is named after the first sequence number in it.
        let number = segment.get(12..20).and_then(|number| number.try_into().ok());
        let name = format!("{:016x}.log", number.map_or(u64::from(index), u64::from_le_bytes));
        fs::write(dir.path().join(name), segment).expect("a file can be written");
    }
    decoders::log(dir.path(), applied_lsn);
}

pub fn metadata(input: &[u8]) {
    decoders::metadata(input);
}

pub fn record(input: &[u8]) {
    decoders::record(input);
}

pub fn reply(input: &[u8]) {
    decoders::replies(input);
}

/// What comes through the socket, run on a memory engine without `hello`, which panics when asked to.
pub fn request(input: &[u8]) {
    let classes = ClassRegistry::new().with(benthic_classes::digest::Digest);
    decoders::requests(input, pool(classes).as_ref());
}

pub fn tables(input: &[u8]) {
    decoders::tables(input);
}

/// Values on the command line.
pub fn values(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(size) = units::parse_size(text) {
        assert_eq!(units::parse_size(&size.to_string()), Ok(size));
        let _ = (units::size(size), units::utc(size));
    }
    if let Some(bytes) = units::parse_hex(text) {
        assert_eq!(units::hex(&bytes), text.to_ascii_lowercase());
    }
    for line in [units::one_line(text), units::no_control(text), units::one_line_bytes(input)] {
        assert!(!line.contains(char::is_control), "{line:?} is not one line");
    }
}

fn pool(classes: ClassRegistry) -> Arc<dyn Pool> {
    let store = MemStore::new(Options::default().with_classes(classes));
    block_on(store.create_pool("p")).expect("a new store takes a pool");
    block_on(store.open_pool("p")).expect("the pool was just made")
}

/// Input in parts: two bytes of length, then so many bytes or as many as there are.
struct Parts<'a>(&'a [u8]);

impl Parts<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    fn bytes(&mut self) -> Bytes {
        let len = usize::from(u16::from_le_bytes([self.byte(), self.byte()]));
        let (part, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        Bytes::copy_from_slice(part)
    }
}
