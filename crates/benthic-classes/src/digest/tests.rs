use super::{Algorithm, Hasher, PIECE_BYTES, client};
use benthic_core::{ClassCall, ErrorKind, ManualClock, MethodLimits, ObjectId, Pool, Result, Store, WriteOp};
use benthic_embedded::{MemStore, Options};
use futures::executor::block_on;
use std::sync::Arc;

struct Fixture {
    pool: Arc<dyn Pool>,
    object: ObjectId,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::with(Options::default())
    }

    fn with(options: Options) -> Fixture {
        let store = MemStore::new(options.with_classes(crate::registry()));
        block_on(store.create_pool("p")).unwrap();
        Fixture { pool: block_on(store.open_pool("p")).unwrap(), object: ObjectId::new("o").unwrap() }
    }

    fn put(&self, data: &[u8]) {
        block_on(self.pool.write_full(&self.object, data.to_vec())).unwrap();
    }

    fn exec(&self, method: &str, input: &str) -> Result<String> {
        let call =
            ClassCall { class: "digest".into(), method: method.into(), input: input.to_owned().into() };
        block_on(self.pool.exec(&self.object, call)).map(|output| String::from_utf8(output.to_vec()).unwrap())
    }

    fn kind(&self, method: &str, input: &str) -> ErrorKind {
        self.exec(method, input).unwrap_err().kind()
    }
}

fn pattern(len_bytes: u64) -> Vec<u8> {
    (0..len_bytes).map(|index| (index % 251) as u8).collect()
}

/// Hashes in one call instead of pieces, and MD5 with another crate than the class uses.
fn at_once(algorithm: Algorithm, data: &[u8]) -> String {
    use md5::Digest as _;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    match algorithm {
        Algorithm::Md5 => hex(&md5::Md5::digest(data)),
        Algorithm::Sha1 => hex(&sha1::Sha1::digest(data)),
        Algorithm::Sha256 => hex(&sha2::Sha256::digest(data)),
        Algorithm::Crc32c => format!("{:08x}", crc32c::crc32c(data)),
        Algorithm::Xxh3 => format!("{:032x}", xxhash_rust::xxh3::xxh3_128(data)),
        Algorithm::Blake3 => blake3::hash(data).to_hex().to_string(),
    }
}

/// Digests by other implementations of each algorithm, including the vectors of RFC 1321 and FIPS
/// 180-4 and the check value of CRC-32C. The pattern is [`pattern`] with 2 MiB + 1.
const VECTORS: [(&str, [&str; 6]); 4] = [
    (
        "",
        [
            "d41d8cd98f00b204e9800998ecf8427e",
            "da39a3ee5e6b4b0d3255bfef95601890afd80709",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "00000000",
            "99aa06d3014798d86001c324468d497f",
            "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
        ],
    ),
    (
        "abc",
        [
            "900150983cd24fb0d6963f7d28e17f72",
            "a9993e364706816aba3e25717850c26c9cd0d89d",
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
            "364b3fb7",
            "06b05ab6733a618578af5f94892f3950",
            "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85",
        ],
    ),
    (
        "123456789",
        [
            "25f9e794323b453885f5181f1b624d0b",
            "f7c3bc1d808e04732adf679965ccc34ca7ae3441",
            "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225",
            "e3069283",
            "33119477ede5dcd5e9716427681d5860",
            "b7d65b48420d1033cb2595293263b6f72eabee20d55e699d0df1973b3c9deed1",
        ],
    ),
    (
        "pattern",
        [
            "acec026742a1c47e3e36353c9d15f797",
            "dc7347cdc287a0f623639553a5fde5012184f78e",
            "72bcf8fa6c73c0a650f5c83f47e54290ba2fe60ac6cb0d8fe5b0a41dd57a0844",
            "f1d2dbcf",
            "173d613bea92cdbc49bec44389fc2f09",
            "52dc212cb4cc61cb94d25bd7b1d47b256e4c3a6d68956df50c235c37a2aeacd7",
        ],
    ),
];

#[test]
fn known_vectors_in_the_store_and_in_the_client() {
    let fixture = Fixture::new();
    for (text, digests) in VECTORS {
        let data = if text == "pattern" { pattern(2 * PIECE_BYTES + 1) } else { text.as_bytes().to_vec() };
        fixture.put(&data);
        for (algorithm, expected) in Algorithm::ALL.into_iter().zip(digests) {
            let (pool, object) = (fixture.pool.as_ref(), &fixture.object);
            for digest in [
                block_on(client::store(pool, object, algorithm, 1)),
                block_on(client::compute(pool, object, algorithm, 1)),
                block_on(client::hash_in_client(pool, object, algorithm)),
            ] {
                assert_eq!(digest.unwrap(), expected, "{text} {algorithm}");
            }
            let stored = block_on(pool.get_xattr(object, algorithm.xattr())).unwrap();
            assert_eq!(stored, expected.as_bytes(), "{text} {algorithm}");
        }
    }
}

#[test]
fn objects_of_several_pieces_hash_as_one() {
    let fixture = Fixture::new();
    for len_bytes in
        [1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 2 * PIECE_BYTES, 3 * PIECE_BYTES + 12_345]
    {
        let data = pattern(len_bytes);
        fixture.put(&data);
        for algorithm in Algorithm::ALL {
            assert_eq!(
                fixture.exec("compute", algorithm.name()).unwrap(),
                at_once(algorithm, &data),
                "{len_bytes} {algorithm}"
            );
        }
    }
}

#[test]
fn a_hasher_takes_pieces_of_any_size() {
    let data = pattern(100_000);
    for algorithm in Algorithm::ALL {
        let expected = at_once(algorithm, &data);
        for piece_bytes in [1, 7, 64, 4_095, 99_999] {
            let mut hasher = Hasher::new(algorithm);
            hasher.update(b"");
            data.chunks(piece_bytes).for_each(|piece| hasher.update(piece));
            assert_eq!(hasher.finish(), expected, "{algorithm} {piece_bytes}");
        }
    }
}

/// A block of MD5 has 64 bytes, and 9 bytes of the last block are padding and length.
#[test]
fn every_length_around_a_block_is_padded_right() {
    let data = pattern(200);
    for algorithm in Algorithm::ALL {
        for len_bytes in 0..data.len() {
            let (start, end) = data[..len_bytes].split_at(len_bytes / 3);
            let mut hasher = Hasher::new(algorithm);
            hasher.update(start);
            hasher.update(end);
            assert_eq!(hasher.finish(), at_once(algorithm, &data[..len_bytes]), "{algorithm} {len_bytes}");
        }
    }
}

#[test]
fn an_object_is_never_in_memory_as_a_whole() {
    let method_limits = MethodLimits { memory_bytes_max: PIECE_BYTES + 4_096, ..MethodLimits::default() };
    let fixture = Fixture::with(Options { method_limits, ..Options::default() });
    fixture.put(&pattern(8 * PIECE_BYTES));
    let expected = fixture.exec("compute", r#"{"algorithm":"md5","repeat":3}"#).unwrap();
    assert_eq!(expected, at_once(Algorithm::Md5, &pattern(8 * PIECE_BYTES)));
}

#[test]
fn repetitions_give_the_same_digest_and_are_counted_against_the_deadline() {
    let fixture = Fixture::new();
    fixture.put(b"abc");
    let (pool, object) = (fixture.pool.as_ref(), &fixture.object);
    let expected = at_once(Algorithm::Sha1, b"abc");
    assert_eq!(block_on(client::store(pool, object, Algorithm::Sha1, 1_000)).unwrap(), expected);
    assert_eq!(block_on(client::compute(pool, object, Algorithm::Sha1, 1_000)).unwrap(), expected);

    // 100,000 repetitions over 8 MiB exceed one millisecond.
    let method_limits = MethodLimits { deadline_ms: 1, ..MethodLimits::default() };
    let fixture = Fixture::with(Options { method_limits, ..Options::default() });
    fixture.put(&pattern(8 * PIECE_BYTES));
    assert_eq!(fixture.kind("md5", r#"{"repeat":100000}"#), ErrorKind::LimitExceeded);
    let xattr = block_on(fixture.pool.get_xattr(&fixture.object, "digest.md5"));
    assert_eq!(xattr.unwrap_err().kind(), ErrorKind::NotFound);

    // The clock stands still, so there is no deadline; the call ends after its repetitions.
    let fixture = Fixture::with(Options {
        clock: Arc::new(ManualClock::default()),
        method_limits,
        ..Options::default()
    });
    fixture.put(b"");
    assert_eq!(fixture.exec("md5", r#"{"repeat":100000}"#).unwrap(), "");
}

#[test]
fn verify_checks_what_is_stored() {
    let fixture = Fixture::new();
    let (pool, object) = (fixture.pool.as_ref(), &fixture.object);
    fixture.put(b"abc");
    assert_eq!(fixture.kind("verify", ""), ErrorKind::NotFound);
    assert_eq!(fixture.kind("verify", "md5"), ErrorKind::NotFound);
    fixture.exec("md5", "").unwrap();
    fixture.exec("crc32c", "").unwrap();
    assert_eq!(
        fixture.exec("verify", "").unwrap(),
        r#"{"md5":"900150983cd24fb0d6963f7d28e17f72","crc32c":"364b3fb7"}"#
    );
    assert_eq!(fixture.exec("verify", "crc32c").unwrap(), r#"{"crc32c":"364b3fb7"}"#);
    assert_eq!(fixture.kind("verify", "sha1"), ErrorKind::NotFound);
    let verified = block_on(client::verify(pool, object, Some(Algorithm::Crc32c))).unwrap();
    assert_eq!(verified.into_iter().collect::<Vec<_>>(), [(Algorithm::Crc32c, "364b3fb7".to_owned())]);

    fixture.put(b"abd");
    let error = block_on(client::verify(pool, object, Some(Algorithm::Crc32c))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    let context: Vec<_> = error.context().collect();
    assert!(context.contains(&("algorithm", "crc32c")), "{error}");
    assert!(context.contains(&("stored", "364b3fb7")), "{error}");
    assert!(context.contains(&("computed", &at_once(Algorithm::Crc32c, b"abd"))), "{error}");
    assert_eq!(fixture.kind("verify", ""), ErrorKind::Corrupt);
    // An attribute for an unknown algorithm is not a digest.
    block_on(pool.write(object, WriteOp::new().remove().set_xattr("digest.sha3", "00"))).unwrap();
    assert_eq!(fixture.kind("verify", ""), ErrorKind::NotFound);
    block_on(pool.write(object, WriteOp::new().set_xattr("digest.md5", &b"\xff\xfe"[..]))).unwrap();
    assert_eq!(fixture.kind("verify", ""), ErrorKind::Corrupt);
}

#[test]
fn bad_input_is_refused() {
    let fixture = Fixture::new();
    fixture.put(b"abc");
    for input in
        ["x", "{", "{}x", r#"{"repeat":0}"#, r#"{"repeat":-1}"#, r#"{"repeat":1.5}"#, r#"{"repeat":"1"}"#]
            .into_iter()
            .chain([r#"{"repeats":1}"#, r#"{"algorithm":"md5"}"#, "[]", r#"{"repeat":1,"repeat":1}"#, " "])
    {
        assert_eq!(fixture.kind("md5", input), ErrorKind::InvalidArgument, "{input}");
    }
    for input in
        ["", "MD5", "md4", " md5", "{}", r#"{"algorithm":"md4"}"#, r#"{"algorithm":"md5","repeat":0}"#]
            .into_iter()
            .chain([r#"{"algorithm":"md5","x":1}"#, r#"{"repeat":1}"#])
    {
        assert_eq!(fixture.kind("compute", input), ErrorKind::InvalidArgument, "{input}");
    }
    for input in ["md4", "digest.md5", "{}"] {
        assert_eq!(fixture.kind("verify", input), ErrorKind::InvalidArgument, "{input}");
    }
    assert!(
        fixture
            .exec("compute", "md4")
            .unwrap_err()
            .to_string()
            .contains("md5, sha1, sha256, crc32c, xxh3, blake3")
    );
    assert_eq!(fixture.kind("md5", r#"{"repeat":100001}"#), ErrorKind::LimitExceeded);
    assert_eq!(fixture.kind("compute", r#"{"algorithm":"md5","repeat":100001}"#), ErrorKind::LimitExceeded);
    assert_eq!(fixture.kind("verify", &"x".repeat(257)), ErrorKind::LimitExceeded);
    let invalid = ClassCall { class: "digest".into(), method: "md5".into(), input: vec![0xff].into() };
    let error = block_on(fixture.pool.exec(&fixture.object, invalid)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_missing_object_has_no_digest() {
    let fixture = Fixture::new();
    for method in ["md5", "sha1", "sha256", "crc32c", "xxh3", "blake3", "verify"] {
        assert_eq!(fixture.kind(method, ""), ErrorKind::NotFound, "{method}");
    }
    assert_eq!(fixture.kind("compute", "md5"), ErrorKind::NotFound);
    let (pool, object) = (fixture.pool.as_ref(), &fixture.object);
    let error = block_on(client::hash_in_client(pool, object, Algorithm::Md5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}
