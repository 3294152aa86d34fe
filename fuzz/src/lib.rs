//! Fuzz targets: a function for every decoder that takes any bytes and panics if a promise is
//! broken. The fuzzer generates the bytes; `make test` runs the inputs in `corpus/`.

use benthic_classes::bucket::Bucket;
use benthic_classes::bucket::codec::Id;
use benthic_classes::bucket::locks::{DefaultRetention, LOCK_ATTRIBUTE, Lock, Retention, RetentionMode};
use benthic_classes::bucket::state::{Attributes, Body, Group, Manifest, Segment};
use benthic_classes::bucket::wire as index;
use benthic_classes::lock::{self, wire};
use benthic_classes::picture::Picture;
use benthic_classes::select::wire::{
    Compression, CsvInput, Header, Input, Output, Request, ScanRange, Totals,
};
use benthic_classes::select::{Fault, HEADER_BYTES_MAX, Host, Select};
use benthic_core::codec::Wire;
use benthic_core::names::{check_namespace, check_pool_name, check_xattr_name};
use benthic_core::{
    Class, ClassCall, ClassRegistry, ErrorKind, ListRequest, ListToken, MethodLimits, Namespaces,
    ObjectAddress, ObjectId, Pool, PoolAddress, ReadOp, Store, WriteOp, limits,
};
use benthic_embedded::{MemStore, Options, decoders};
use benthic_program::units;
use benthic_program::uri::StoreUri;
use bytes::Bytes;
use futures::executor::block_on;
use std::fmt::Display;
use std::fs;
use std::str::FromStr;
use std::sync::Arc;

pub type Target = fn(&[u8]);

pub const TARGETS: [(&str, Target); 14] = [
    ("address", address),
    ("bucket", bucket),
    ("class", class),
    ("listing", listing),
    ("lock", lock),
    ("log", log),
    ("metadata", metadata),
    ("picture", picture),
    ("record", record),
    ("reply", reply),
    ("request", request),
    ("select", select),
    ("tables", tables),
    ("values", values),
];

/// Methods of `hello` that panic, or use all time or memory, as documented.
const MISBEHAVING: [&str; 5] = ["flood", "hoard", "panic", "spin", "swallow_deadline"];

/// URIs, addresses and names, as a user types them.
pub fn address(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    check_round_trip::<StoreUri>(text);
    check_round_trip::<ObjectAddress>(text);
    let _ = text.parse::<PoolAddress>();
    let _ = (check_namespace(text), check_pool_name(text), check_xattr_name(text));
}

/// Checks that a parsed value prints as text that parses to the same value.
fn check_round_trip<T: FromStr + Display + PartialEq>(text: &str) {
    if let Ok(value) = text.parse::<T>() {
        let shown = value.to_string();
        assert!(
            shown.parse::<T>().is_ok_and(|again| again == value),
            "{text:?} prints as {shown:?}, which does not parse to the same value"
        );
    }
}

/// Makes a series of calls on a shard of a bucket, which may hold any stored entry. Some calls have
/// any bytes as input, others plausible input, so that versions, uploads and shared data come into
/// being. Every listed version must be readable.
pub fn bucket(input: &[u8]) {
    let (pool, object) = (pool(ClassRegistry::new().with(Bucket)), object("o"));
    let call = |method: &str, input: Bytes| call(&*pool, &object, "bucket", method, input);
    let mut parts = Parts(input);
    call("init", index::Init { bucket: Id([1; 16]), shard: 0 }.encode());
    let (key, value) = (parts.bytes(), parts.bytes());
    let is_forged = (1..=limits::OMAP_KEY_BYTES_MAX).contains(&key.len());
    if is_forged {
        block_on(pool.write(&object, WriteOp::new().omap_set([(key, value)])))
            .expect("a valid write succeeds");
    }
    while !parts.0.is_empty() {
        let method = Bucket.methods()[usize::from(parts.byte()) % Bucket.methods().len()].name;
        let input = if parts.byte() % 8 == 0 { parts.bytes() } else { plausible_input(method, &mut parts) };
        call(method, input);
    }
    let list = |kind| index::List {
        kind,
        prefix: String::new(),
        delimiter: String::new(),
        after: None,
        entries_max: index::LIST_ENTRIES_MAX,
    };
    let listed = call("list", list(index::ListKind::Versions).encode());
    let Some(listed) = listed else {
        assert!(is_forged, "the class cannot list its entries");
        return;
    };
    for entry in index::ListOutput::decode(&listed).expect("a listing can be decoded").entries {
        let index::Entry::Version(version) = entry else { panic!("a prefix without a delimiter") };
        let get = index::Get { key: version.key, version: Some(version.head.version_ref()) };
        assert!(call("get", get.encode()).is_some() || is_forged, "{get:?} is listed but cannot be read");
    }
}

/// Builds a plausible input. It uses few keys and writes, so that calls affect each other.
fn plausible_input(method: &str, parts: &mut Parts<'_>) -> Bytes {
    let now_ms = u64::from(parts.byte());
    let times = index::Times { now_ms, grace_ms: u64::from(parts.byte() % 8), outcome_ms: 4 };
    let id = |byte: u8| Id([byte % 6; 16]);
    let (write, other) = (id(parts.byte()), id(parts.byte()));
    let key = ["a", "a/b", "\0", "é"][usize::from(parts.byte() % 4)].to_owned();
    let mode =
        [index::Mode::Off, index::Mode::Enabled, index::Mode::Suspended][usize::from(parts.byte() % 3)];
    let etag = ["x", "y"][usize::from(parts.byte() % 2)].to_owned();
    let condition = match parts.byte() % 8 {
        0 => index::Condition::Exists,
        1 => index::Condition::Absent,
        2 => index::Condition::Matches("x".to_owned()),
        3 => index::Condition::Differs("x".to_owned()),
        4 => index::Condition::Current(index::Seen { write, revision: 0 }),
        5 => index::Condition::Replaced(index::Seen { write, revision: 0 }),
        _ => index::Condition::Always,
    };
    let version = match parts.byte() % 12 {
        0 => index::VersionRef::Null,
        seq => index::VersionRef::Seq(u64::from(seq)),
    };
    let flag = parts.byte();
    let named = (flag & 1 == 1).then_some(version);
    let number = u16::from(parts.byte() % 4);
    let segment = (flag & 2 == 2).then_some(Segment { write, len_bytes: 9, chunk_bytes: 4 });
    let group = Group { bucket: Id([1; 16]), shard: 0, write: other };
    let shared = (flag & 4 == 4).then_some(group);
    // Some attributes are too large for the entry of their version.
    let mut attributes: Attributes =
        [("a".to_owned(), Bytes::from(vec![flag; usize::from(flag) * 8]))].into();
    if flag & 16 == 16 {
        let mode = if flag & 32 == 32 { RetentionMode::Compliance } else { RetentionMode::Governance };
        let retention = Some(Retention { mode, until_ms: now_ms + u64::from(number) });
        let lock = Lock { retention, legal_hold: (flag & 64 == 64).then_some(true), ..Lock::default() };
        attributes.insert(LOCK_ATTRIBUTE.to_owned(), lock.encode());
    }
    let default_retention =
        (flag & 128 == 128).then_some(DefaultRetention { mode: RetentionMode::Governance, duration_ms: 9 });
    let queue = if flag & 1 == 1 { "one" } else { "two" }.to_owned();
    let change =
        [index::Change::Created, index::Change::MarkerCreated, index::Change::Removed, index::Change::Moved];
    let event = index::NewEvent {
        change: change[usize::from(number % 4)],
        queue: queue.clone(),
        name: "ObjectCreated:Put".to_owned(),
        rule: "r".to_owned(),
        detail: Bytes::new(),
    };
    let events = if flag & 64 == 64 { vec![event] } else { Vec::new() };
    let class = (flag & 8 == 8).then(|| "COLD".to_owned());
    match method {
        "init" => index::Init { bucket: Id([flag % 2; 16]), shard: 0 }.encode(),
        "gate" => index::Gate { revision: u64::from(number), close: flag % 2 == 1 }.encode(),
        "begin" | "renew" => {
            let chunks = u32::from(number);
            index::Begin { write, expires_ms: now_ms + 4, chunks, class, shared }.encode()
        }
        "sweep" => index::Sweep { now_ms, writes: vec![write, other], given_up: flag & 1 == 1 }.encode(),
        "put" => {
            let manifest = Manifest { shared, moved: None, segments: segment.into_iter().collect() };
            let body = Body { manifest, attributes };
            let reserve = (flag & 8 == 8).then_some(index::Reserve { write: other, expires_ms: now_ms + 4 });
            index::Put {
                times,
                write,
                key,
                condition,
                mode,
                etag,
                class,
                body,
                default_retention,
                reserve,
                events,
            }
            .encode()
        }
        "append" => {
            let seen = index::Seen { write: other, revision: u32::from(number) };
            let segment = Segment { write, len_bytes: 9, chunk_bytes: 4 };
            index::Append { times, write, key, seen, segment, etag, attributes, events }.encode()
        }
        "delete" => {
            let bypass_governance = flag & 2 == 2;
            let due_ms = (flag & 4 == 4).then_some(u64::from(number) * 64);
            index::Delete {
                times,
                write,
                key,
                version: named,
                condition,
                mode,
                bypass_governance,
                due_ms,
                events,
            }
            .encode()
        }
        "set_attributes" => {
            let (revision, bypass_governance) = (u32::from(number), flag & 2 == 2);
            index::SetAttributes { key, version, write, revision, attributes, now_ms, bypass_governance }
                .encode()
        }
        "transition" => {
            let due_ms = (flag & 4 == 4).then_some(u64::from(number) * 64);
            let transition = index::Transition {
                times,
                write,
                key,
                version,
                condition,
                data: other,
                size_bytes: u64::from(number),
                class,
                due_ms,
                events,
            };
            transition.encode()
        }
        "upload" => index::NewUpload { upload: other, key, now_ms, class, attributes }.encode(),
        "part" => {
            index::PutPart { times, upload: other, key, number, write, class, segment, etag, attributes }
                .encode()
        }
        "complete" => {
            let parts = vec![index::PartRef { number, write }];
            index::Complete {
                times,
                upload: other,
                key,
                condition,
                mode,
                etag,
                attributes,
                default_retention,
                parts,
                events,
            }
            .encode()
        }
        "abort" => index::Abort { times, upload: other, key }.encode(),
        "share" => index::Share { group: other, tag: write, key, version }.encode(),
        "release" => index::Unshare { group: other, tag: write, free_at_ms: now_ms }.encode(),
        "settle" => {
            let number = u64::from(number);
            let dead = vec![index::FailedEvent { number: number + 1, reason: etag }];
            let revived = (flag & 2 == 2).then_some(number).into_iter().collect();
            index::Settle { queue, now_ms, done: vec![number], dead, revived }.encode()
        }
        "get" => index::Get { key, version: named }.encode(),
        _ => {
            let kinds = [index::ListKind::Objects, index::ListKind::Versions, index::ListKind::Uploads];
            let within = (flag & 8 == 8).then_some(index::KeyPosition::Version(u64::from(number)));
            let after = (flag & 1 == 1).then_some(index::ListPosition { key, within });
            let delimiter = if flag & 2 == 2 { "/" } else { "" };
            index::List {
                kind: kinds[usize::from(number % 3)],
                prefix: if flag & 4 == 4 { "a".to_owned() } else { String::new() },
                delimiter: delimiter.to_owned(),
                after,
                entries_max: u32::from(flag % 5),
            }
            .encode()
        }
    }
}

/// Calls any method with any input, on an object with any data, attribute and omap entry.
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
    if (1..=limits::OMAP_KEY_BYTES_MAX).contains(&key.len()) {
        op = op.omap_set([(key, value)]);
    }
    let (pool, object) = (pool(benthic_classes::registry()), object("o"));
    block_on(pool.write(&object, op)).expect("the object is within the limits");
    call(&*pool, &object, &class, &method, Bytes::copy_from_slice(parts.0));
}

/// Calls a method. A failed call must change nothing, and must not be a defect of the class.
fn call(
    pool: &dyn Pool,
    object: &ObjectId,
    class: &str,
    method: &str,
    input: impl Into<Bytes>,
) -> Option<Bytes> {
    let content = || {
        let op = ReadOp::new().read(0, 1 << 20).list_xattrs().omap_range(None, "", 1_000);
        block_on(pool.read(object, op)).map(|reply| reply.outputs).map_err(|error| error.kind())
    };
    let before = content();
    let error = match block_on(pool.exec(object, ClassCall::new(class, method, input))) {
        Ok(output) => return Some(output),
        Err(error) => error,
    };
    assert_eq!(content(), before, "{class}.{method} failed and changed the object");
    let defect = matches!(error.kind(), ErrorKind::ClassFailed | ErrorKind::Internal);
    // `hello` demonstrates methods that break the rules, and fails with any requested kind.
    assert!(class == "hello" || !defect, "{class}.{method}: {error}");
    None
}

/// Tokens, prefixes and namespaces of listings: a listing continues after its token, or refuses the
/// token.
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
            block_on(pool.write_full(&id, "")).expect("a valid write succeeds");
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

/// Makes a series of calls on an object with any stored lock. Every listed holder must hold the
/// lock.
pub fn lock(input: &[u8]) {
    let (pool, object) = (pool(ClassRegistry::new().with(lock::Lock)), object("o"));
    let call = |method: &str, input: Bytes| call(&*pool, &object, "lock", method, input);
    let mut parts = Parts(input);
    let stored = parts.bytes();
    if !stored.is_empty() {
        let op = WriteOp::new().omap_set([("lock/default", stored)]);
        block_on(pool.write(&object, op)).expect("a valid write succeeds");
    }
    while !parts.0.is_empty() {
        let methods = lock::Lock.methods();
        call(methods[usize::from(parts.byte()) % methods.len()].name, parts.bytes());
    }
    if call("list", Bytes::new()).is_none() {
        return;
    }
    for listed in block_on(lock::client::list(&*pool, &object)).expect("the list can be decoded") {
        let holders_max = if listed.mode == wire::Mode::Exclusive { 1 } else { wire::HOLDERS_MAX };
        assert!((1..=holders_max).contains(&listed.holders.len()), "{listed:?}");
        // Skip leases: a lease may end in between.
        for holder in listed.holders.iter().filter(|holder| holder.left_ms.is_none()) {
            let held = wire::Input {
                name: listed.name.clone(),
                owner: holder.owner.clone(),
                cookie: Some(holder.cookie.clone()),
                mode: Some(listed.mode),
                lease_ms: None,
            };
            assert!(call("assert", held.encode().into()).is_some(), "{held:?} is not held");
        }
    }
}

/// Segments of a log. Most get valid checksums, because the rest of the decoder runs only after
/// them.
pub fn log(input: &[u8]) {
    let mut parts = Parts(input);
    let (flags, applied_lsn) = (parts.byte(), u64::from(parts.byte()));
    let dir = tempfile::Builder::new().prefix("benthic-fuzz").tempdir().expect("a temporary directory");
    for index in 0..=flags >> 4 {
        let mut segment = if index == flags >> 4 { parts.0.to_vec() } else { parts.bytes().to_vec() };
        if flags & 1 == 0 {
            decoders::seal(&mut segment);
        }
        // A segment is named after its first sequence number.
        let number = segment.get(12..20).and_then(|number| number.try_into().ok());
        let name = format!("{:016x}.log", number.map_or(u64::from(index), u64::from_le_bytes));
        fs::write(dir.path().join(name), segment).expect("a file can be written");
    }
    decoders::log(dir.path(), applied_lsn);
}

pub fn metadata(input: &[u8]) {
    decoders::metadata(input);
}

/// Stores any file as a picture. The thumbnail of a stored picture must be a picture too.
pub fn picture(input: &[u8]) {
    let mut file = input.to_vec();
    seal_png(&mut file);
    let pool = pool(ClassRegistry::new().with(Picture));
    let put = |name: &str, file: Bytes| call(&*pool, &object(name), "picture", "put", file);
    if put("o", file.into()).is_some()
        && let Some(thumbnail) = call(&*pool, &object("o"), "picture", "thumbnail", "")
    {
        assert!(put("thumbnail", thumbnail).is_some(), "the thumbnail is not a picture");
    }
}

/// Pieces of an object, and the records that a query selects.
struct Query<'a> {
    data: &'a [u8],
    piece_bytes: usize,
    records: Vec<u8>,
}

impl Host for Query<'_> {
    fn read(&mut self) -> benthic_core::Result<Bytes> {
        let (piece, rest) = self.data.split_at(self.piece_bytes.min(self.data.len()));
        self.data = rest;
        Ok(Bytes::copy_from_slice(piece))
    }

    fn read_range(&mut self, _: std::ops::Range<u64>) -> benthic_core::Result<Bytes> {
        panic!("CSV and JSON are read front to back")
    }

    fn write(&mut self, records: Vec<u8>) -> benthic_core::Result<()> {
        self.records.extend_from_slice(&records);
        Ok(())
    }

    fn unix_ms(&self) -> u64 {
        1_750_000_000_000
    }

    fn check(&mut self, _: Totals) -> benthic_core::Result<()> {
        Ok(())
    }
}

/// A query on data: a byte for the form, the expression, a zero byte, and the data. The answer does
/// not depend on the pieces in which the data arrive.
pub fn select(input: &[u8]) {
    let mut parts = Parts(input);
    let form = parts.byte();
    let mut texts = parts.0.splitn(2, |byte| *byte == 0);
    let expression = String::from_utf8_lossy(texts.next().unwrap_or_default()).into_owned();
    let data = texts.next().unwrap_or_default();
    let header = [Header::None, Header::Use, Header::Ignore][usize::from(form >> 3) % 3];
    let csv = CsvInput { header, ..CsvInput::default() };
    let odd =
        CsvInput { record_delimiter: "|;".into(), quote: "'".into(), escape: "\\".into(), ..csv.clone() };
    let input = match form % 5 {
        0 => Input::Csv(csv),
        1 => Input::Csv(CsvInput { quoted_record_delimiter: true, ..csv }),
        2 => Input::Csv(CsvInput { quoted_record_delimiter: true, ..odd }),
        3 => Input::JsonLines,
        _ => Input::JsonDocument,
    };
    let range = (form >= 192)
        .then_some(ScanRange { start: Some(data.len() as u64 / 3), end: Some(data.len() as u64 / 2) });
    let compression = match form {
        64..96 => Compression::Gzip,
        96..112 => Compression::Bzip2,
        _ => Compression::None,
    };
    let request = Request { expression, input, compression, output: Output::Json("\n".into()), range };
    let Ok(select) = Select::new(&request) else { return };
    let part = select.part(data.len() as u64);
    let header = part.needs_header.then(|| &data[..data.len().min(HEADER_BYTES_MAX as usize)]);
    let run = |piece_bytes| {
        let start = (part.read_from as usize).min(data.len());
        let mut query = Query { data: &data[start..], piece_bytes, records: Vec::new() };
        match select.run(part, header, &mut query) {
            Ok(totals) => (Some(totals.returned_bytes), None, query.records),
            Err(Fault::Query(failure)) => (None, Some(failure), query.records),
            Err(Fault::Host(error)) => panic!("{error}"),
        }
    };
    let whole = run(1 << 20);
    assert_eq!(whole, run(3));
    assert!(whole.0.is_none_or(|returned_bytes| returned_bytes == whole.2.len() as u64));
}

/// Corrects the checksums of a PNG, because its decoder runs only after them.
fn seal_png(file: &mut [u8]) {
    let magic = b"\x89PNG\r\n\x1a\n";
    let Some(start) = file.windows(magic.len()).position(|bytes| bytes == magic) else { return };
    let mut rest = &mut file[start + magic.len()..];
    while let Some((len_bytes, chunk)) = rest.split_first_chunk_mut() {
        let named_bytes = 4 + u32::from_be_bytes(*len_bytes) as usize;
        let Some((named, behind)) = chunk.split_at_mut_checked(named_bytes) else { return };
        let Some((checksum, next)) = behind.split_first_chunk_mut() else { return };
        *checksum = crc32(named).to_be_bytes();
        rest = next;
    }
}

fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

pub fn record(input: &[u8]) {
    decoders::record(input);
}

pub fn reply(input: &[u8]) {
    decoders::replies(input);
}

/// Decodes requests to the socket, and runs them on a memory engine without `hello`, whose methods
/// panic on request.
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

fn object(name: &str) -> ObjectId {
    ObjectId::new(name).expect("a valid name")
}

/// A pool whose methods have memory for a picture of half a million pixels, because larger ones
/// take too long to fuzz, and a deadline that even a slow machine meets.
fn pool(classes: ClassRegistry) -> Arc<dyn Pool> {
    let method_limits =
        MethodLimits { deadline_ms: 60_000, memory_bytes_max: 8 << 20, ..MethodLimits::default() };
    let store = MemStore::new(Options { method_limits, ..Options::default() }.with_classes(classes));
    block_on(store.create_pool("p")).expect("a new store takes a pool");
    block_on(store.open_pool("p")).expect("the pool was just created")
}

/// Splits the input into parts: a length of two bytes, then that number of bytes or all that are
/// left.
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
