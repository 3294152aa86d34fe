//! Checksums of objects and parts: computed while the data arrive, compared with the client's,
//! stored as attributes, and returned with the object.

use super::names;
use crate::sal::{Attributes, Part};
use crate::seal::hex;
use bytes::Bytes;
use fast_md5::Md5;
use hyper::HeaderMap;
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Sha1, Sha256};
use s3s::dto::{ChecksumAlgorithm, ChecksumType};
use s3s::{S3Result, TrailingHeaders, s3_error};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Crc32,
    Crc32c,
    Crc64Nvme,
    Sha1,
    Sha256,
}

/// Whether a checksum covers all data of an object, or the checksums of its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    FullObject,
    Composite,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredChecksum {
    pub algorithm: Algorithm,
    pub kind: Kind,
    /// In base64. The value of a composite checksum ends in a dash and the number of parts.
    pub value: String,
}

/// Maximum total size of the stored checksums of an object's parts: enough for 10,000 checksums of
/// four bytes. With them and everything that a client may add, the attributes stay below their
/// limit.
const PART_CHECKSUMS_BYTES_MAX: usize = 40_000;

pub(crate) const ALGORITHMS: [Algorithm; 5] =
    [Algorithm::Crc32, Algorithm::Crc32c, Algorithm::Crc64Nvme, Algorithm::Sha1, Algorithm::Sha256];

impl Algorithm {
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Crc32 => ChecksumAlgorithm::CRC32,
            Algorithm::Crc32c => ChecksumAlgorithm::CRC32C,
            Algorithm::Crc64Nvme => ChecksumAlgorithm::CRC64NVME,
            Algorithm::Sha1 => ChecksumAlgorithm::SHA1,
            Algorithm::Sha256 => ChecksumAlgorithm::SHA256,
        }
    }

    pub fn header(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "x-amz-checksum-crc32",
            Algorithm::Crc32c => "x-amz-checksum-crc32c",
            Algorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
            Algorithm::Sha1 => "x-amz-checksum-sha1",
            Algorithm::Sha256 => "x-amz-checksum-sha256",
        }
    }

    pub fn parse(name: &str) -> S3Result<Algorithm> {
        let found = ALGORITHMS.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| match name {
            "MD5" | "SHA512" | "XXHASH64" | "XXHASH3" | "XXHASH128" => {
                s3_error!(NotImplemented, "the checksum algorithm {name} is not implemented")
            }
            _ => s3_error!(InvalidRequest, "unknown checksum algorithm"),
        })
    }

    pub fn of_request(named: Option<&ChecksumAlgorithm>) -> S3Result<Option<Algorithm>> {
        named.map(|named| Algorithm::parse(named.as_str())).transpose()
    }

    /// The kinds of checksum that a multipart object may have, the default first.
    pub fn kinds(self) -> &'static [Kind] {
        match self {
            Algorithm::Crc32 | Algorithm::Crc32c => &[Kind::Composite, Kind::FullObject],
            Algorithm::Crc64Nvme => &[Kind::FullObject],
            Algorithm::Sha1 | Algorithm::Sha256 => &[Kind::Composite],
        }
    }
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::FullObject => ChecksumType::FULL_OBJECT,
            Kind::Composite => ChecksumType::COMPOSITE,
        }
    }

    pub fn parse(name: &str) -> S3Result<Kind> {
        [Kind::FullObject, Kind::Composite]
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| s3_error!(InvalidRequest, "unknown checksum type"))
    }
}

impl StoredChecksum {
    pub fn of(attributes: &Attributes) -> Option<StoredChecksum> {
        let text = std::str::from_utf8(attributes.get(names::CHECKSUM)?).ok()?;
        let mut words = text.split(' ');
        let algorithm = Algorithm::parse(words.next()?).ok()?;
        let kind = Kind::parse(words.next()?).ok()?;
        Some(StoredChecksum { algorithm, kind, value: words.next().unwrap_or_default().to_owned() })
    }

    pub fn store(&self, attributes: &mut Attributes) {
        let text = format!("{} {} {}", self.algorithm.name(), self.kind.name(), self.value);
        attributes.insert(names::CHECKSUM.to_owned(), Bytes::from(text.trim_end().to_owned()));
    }

    pub fn checksum_type(&self) -> ChecksumType {
        ChecksumType::from_static(self.kind.name())
    }

    /// The value, if the checksum has this algorithm.
    pub fn value_of(&self, algorithm: Algorithm) -> Option<String> {
        (self.algorithm == algorithm).then(|| self.value.clone())
    }
}

/// Sets the checksum fields of an output.
macro_rules! set_checksum {
    ($output:expr, $stored:expr) => {{
        let stored: Option<&$crate::gateway::checksums::StoredChecksum> = $stored;
        if let Some(stored) = stored {
            use $crate::gateway::checksums::Algorithm;
            $output.checksum_crc32 = stored.value_of(Algorithm::Crc32);
            $output.checksum_crc32c = stored.value_of(Algorithm::Crc32c);
            $output.checksum_crc64nvme = stored.value_of(Algorithm::Crc64Nvme);
            $output.checksum_sha1 = stored.value_of(Algorithm::Sha1);
            $output.checksum_sha256 = stored.value_of(Algorithm::Sha256);
        }
    }};
}
pub(super) use set_checksum;

/// The checksum in the fields of an input, which may have at most one.
macro_rules! declared_checksum {
    ($input:expr) => {{
        use $crate::gateway::checksums::Algorithm;
        $crate::gateway::refuse([
            ("the checksum algorithm MD5", $input.checksum_md5.is_some()),
            ("the checksum algorithm SHA512", $input.checksum_sha512.is_some()),
            ("the checksum algorithm XXHASH64", $input.checksum_xxhash64.is_some()),
            ("the checksum algorithm XXHASH3", $input.checksum_xxhash3.is_some()),
            ("the checksum algorithm XXHASH128", $input.checksum_xxhash128.is_some()),
        ])?;
        $crate::gateway::checksums::single_checksum([
            (Algorithm::Crc32, $input.checksum_crc32.clone()),
            (Algorithm::Crc32c, $input.checksum_crc32c.clone()),
            (Algorithm::Crc64Nvme, $input.checksum_crc64nvme.clone()),
            (Algorithm::Sha1, $input.checksum_sha1.clone()),
            (Algorithm::Sha256, $input.checksum_sha256.clone()),
        ])?
    }};
}
pub(super) use declared_checksum;

pub(super) fn single_checksum(
    given: [(Algorithm, Option<String>); 5],
) -> S3Result<Option<(Algorithm, String)>> {
    let mut given = given.into_iter().filter_map(|(algorithm, value)| Some((algorithm, value?)));
    let first = given.next();
    if given.next().is_some() {
        return Err(s3_error!(InvalidRequest, "a request can carry only one checksum"));
    }
    Ok(first)
}

/// The length and checksums that the client declares for the data that it sends.
#[derive(Default)]
pub(super) struct Declaration {
    pub content_md5: Option<String>,
    /// The checksum in the request headers.
    pub checksum: Option<(Algorithm, String)>,
    /// The algorithm, if the headers name one without a value.
    pub algorithm: Option<Algorithm>,
    pub trailers: Option<TrailingHeaders>,
    pub len_bytes: Option<i64>,
}

/// Computes the MD5 and the checksum of data, and compares them with those that the client
/// declared.
pub(super) struct Verifier {
    md5: Md5,
    algorithm: Algorithm,
    hasher: ChecksumHasher,
    len_bytes: u64,
    declared: Declaration,
    md5_expected: Option<[u8; 16]>,
    /// Whether the client announced that the checksum follows the data.
    in_trailer: bool,
}

/// The entity tag and the attributes of an object with these data.
///
/// # Errors
/// `Internal`.
pub(crate) fn attributes_of_data(
    data: &[u8],
    content_type: Option<&str>,
) -> benthic_core::Result<(String, Attributes)> {
    let digest = || {
        let mut verifier = Verifier::new(Declaration::default(), None, &HeaderMap::new())?;
        verifier.update(data);
        verifier.finish()
    };
    let digests = digest()
        .map_err(|error| benthic_core::Error::new(benthic_core::ErrorKind::Internal, error.to_string()))?;
    let mut attributes = Attributes::new();
    digests.checksum.store(&mut attributes);
    if let Some(content_type) = content_type {
        attributes.insert(names::CONTENT_TYPE.to_owned(), Bytes::copy_from_slice(content_type.as_bytes()));
    }
    Ok((etag(&digests.md5), attributes))
}

/// The digests of verified data.
pub(super) struct Digests {
    pub md5: [u8; 16],
    pub checksum: StoredChecksum,
}

impl Verifier {
    /// Prepares the verification of data; `wanted` is the algorithm that an upload was begun with.
    ///
    /// # Errors
    /// `InvalidDigest` or `BadDigest` for a value that is not a checksum; `InvalidRequest`.
    pub fn new(declared: Declaration, wanted: Option<Algorithm>, headers: &HeaderMap) -> S3Result<Verifier> {
        let md5_expected = declared.content_md5.as_deref().map(parse_md5).transpose()?;
        let in_trailer = trailer_algorithm(headers);
        if let Some((algorithm, value)) = &declared.checksum
            && unbase64(value).is_none_or(|value| value.len() != len_bytes(*algorithm))
        {
            return Err(s3_error!(BadDigest, "the value of {} is not a checksum", algorithm.header()));
        }
        let named = declared.checksum.as_ref().map(|(algorithm, _)| *algorithm).or(in_trailer);
        let algorithm = named.or(declared.algorithm).or(wanted).unwrap_or(Algorithm::Crc64Nvme);
        if wanted.is_some_and(|wanted| wanted != algorithm) {
            return Err(s3_error!(
                InvalidRequest,
                "the upload uses another checksum algorithm than {}",
                algorithm.name()
            ));
        }
        let mut hasher = ChecksumHasher::default();
        match algorithm {
            Algorithm::Crc32 => hasher.crc32 = Some(Crc32::new()),
            Algorithm::Crc32c => hasher.crc32c = Some(Crc32c::new()),
            Algorithm::Crc64Nvme => hasher.crc64nvme = Some(Crc64Nvme::new()),
            Algorithm::Sha1 => hasher.sha1 = Some(Sha1::new()),
            Algorithm::Sha256 => hasher.sha256 = Some(Sha256::new()),
        }
        let in_trailer = in_trailer.is_some();
        Ok(Verifier { md5: Md5::new(), algorithm, hasher, len_bytes: 0, declared, md5_expected, in_trailer })
    }

    pub fn update(&mut self, data: &[u8]) {
        self.md5.update(data);
        self.hasher.update(data);
        self.len_bytes += data.len() as u64;
    }

    /// Compares length and checksums after the last byte.
    ///
    /// # Errors
    /// `IncompleteBody`; `BadDigest` if the data differ from the declaration.
    pub fn finish(self) -> S3Result<Digests> {
        if self.declared.len_bytes.is_some_and(|len| u64::try_from(len) != Ok(self.len_bytes)) {
            return Err(s3_error!(IncompleteBody));
        }
        let md5 = self.md5.finalize();
        if self.md5_expected.is_some_and(|expected| expected != md5) {
            return Err(s3_error!(BadDigest, "the Content-MD5 does not match the data"));
        }
        let computed = self.hasher.finalize();
        let value = match self.algorithm {
            Algorithm::Crc32 => computed.checksum_crc32,
            Algorithm::Crc32c => computed.checksum_crc32c,
            Algorithm::Crc64Nvme => computed.checksum_crc64nvme,
            Algorithm::Sha1 => computed.checksum_sha1,
            Algorithm::Sha256 => computed.checksum_sha256,
        };
        let value = value.ok_or_else(|| s3_error!(InternalError))?;
        let header = self.algorithm.header();
        let trailer = self.declared.trailers.as_ref().and_then(|trailers| {
            trailers.read(|trailers| trailers.get(header).map(|value| value.as_bytes().to_vec())).flatten()
        });
        if self.in_trailer && trailer.is_none() {
            return Err(s3_error!(InvalidRequest, "the announced trailer {header} is missing"));
        }
        let head = self.declared.checksum.as_ref().map(|(_, value)| value.as_bytes().to_vec());
        if [head, trailer].into_iter().flatten().any(|declared| declared != value.as_bytes()) {
            return Err(s3_error!(BadDigest, "the {header} does not match the data"));
        }
        let checksum = StoredChecksum { algorithm: self.algorithm, kind: Kind::FullObject, value };
        Ok(Digests { md5, checksum })
    }
}

/// The algorithm of the checksum that the headers announce as a trailer.
fn trailer_algorithm(headers: &HeaderMap) -> Option<Algorithm> {
    let announced = headers.get("x-amz-trailer")?.to_str().ok()?;
    let mut names = announced.split(',').map(str::trim);
    names.find_map(|name| {
        ALGORITHMS.into_iter().find(|algorithm| name.eq_ignore_ascii_case(algorithm.header()))
    })
}

/// The entity tag of an object that was written in one request.
pub(super) fn etag(md5: &[u8; 16]) -> String {
    hex(md5)
}

fn parse_md5(text: &str) -> S3Result<[u8; 16]> {
    unbase64(text).and_then(|md5| md5.try_into().ok()).ok_or_else(|| s3_error!(InvalidDigest))
}

fn len_bytes(algorithm: Algorithm) -> usize {
    match algorithm {
        Algorithm::Crc32 | Algorithm::Crc32c => 4,
        Algorithm::Crc64Nvme => 8,
        Algorithm::Sha1 => 20,
        Algorithm::Sha256 => 32,
    }
}

/// The checksum of an object, computed from those of its parts. `parts` has the checksum and the
/// size of each part, in order.
///
/// # Errors
/// `InvalidRequest` if a part has no checksum of this algorithm.
pub(super) fn of_parts(
    algorithm: Algorithm,
    kind: Kind,
    parts: &[(Option<StoredChecksum>, u64)],
) -> S3Result<StoredChecksum> {
    let values = parts.iter().map(|(stored, len)| {
        let stored = stored.as_ref().filter(|stored| stored.algorithm == algorithm);
        let value = stored.and_then(|stored| unbase64(&stored.value));
        value
            .map(|value| (value, *len))
            .ok_or_else(|| s3_error!(InvalidRequest, "a part has another checksum algorithm than the upload"))
    });
    let values: Vec<(Vec<u8>, u64)> = values.collect::<S3Result<_>>()?;
    let value = match kind {
        Kind::FullObject => combine(algorithm, &values)?,
        Kind::Composite => {
            let all: Vec<u8> = values.iter().flat_map(|(value, _)| value.iter().copied()).collect();
            let digest = match algorithm {
                Algorithm::Crc32 => Crc32::checksum(&all).to_vec(),
                Algorithm::Crc32c => Crc32c::checksum(&all).to_vec(),
                Algorithm::Crc64Nvme => Crc64Nvme::checksum(&all).to_vec(),
                Algorithm::Sha1 => Sha1::checksum(&all).to_vec(),
                Algorithm::Sha256 => Sha256::checksum(&all).to_vec(),
            };
            format!("{}-{}", base64(&digest), parts.len())
        }
    };
    Ok(StoredChecksum { algorithm, kind, value })
}

/// Stores the checksums of the parts together with that of the object, if they fit into the limit.
pub(super) fn store_part_checksums(
    attributes: &mut Attributes,
    whole: &StoredChecksum,
    parts: &[(u16, Part)],
) {
    let value = |part: &Part| unbase64(&StoredChecksum::of(&part.attributes)?.value_of(whole.algorithm)?);
    let values: Option<Vec<Vec<u8>>> = parts.iter().map(|(_, part)| value(part)).collect();
    if let Some(values) = values.map(|values| values.concat())
        && values.len() <= PART_CHECKSUMS_BYTES_MAX
    {
        attributes.insert(names::PART_CHECKSUMS.to_owned(), Bytes::from(values));
    }
}

/// The checksum of one part of an object. `index` counts from 0.
pub(super) fn of_part(attributes: &Attributes, index: usize, count: usize) -> Option<StoredChecksum> {
    let whole = StoredChecksum::of(attributes)?;
    let len = len_bytes(whole.algorithm);
    let values = attributes.get(names::PART_CHECKSUMS).filter(|values| values.len() == count * len)?;
    let value = base64(values.get(index * len..(index + 1) * len)?);
    Some(StoredChecksum { value, ..whole })
}

fn combine(algorithm: Algorithm, values: &[(Vec<u8>, u64)]) -> S3Result<String> {
    let crc = match algorithm {
        Algorithm::Crc32 => crc_fast::CrcAlgorithm::Crc32IsoHdlc,
        Algorithm::Crc32c => crc_fast::CrcAlgorithm::Crc32Iscsi,
        Algorithm::Crc64Nvme => crc_fast::CrcAlgorithm::Crc64Nvme,
        Algorithm::Sha1 | Algorithm::Sha256 => {
            return Err(s3_error!(InvalidRequest, "a {} of parts can only be composite", algorithm.name()));
        }
    };
    let number = |value: &[u8]| value.iter().fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
    let mut values = values.iter().map(|(value, len)| (number(value), *len));
    let (first, _) = values.next().ok_or_else(|| s3_error!(InternalError))?;
    let all = values.fold(first, |all, (value, len)| {
        // An empty part changes nothing, and combining is not defined for a length of zero.
        if len == 0 { all } else { crc_fast::checksum_combine(crc, all, value, len) }
    });
    Ok(base64(&all.to_be_bytes()[8 - len_bytes(algorithm)..]))
}

/// The entity tag of a multipart object: the MD5 of the parts' MD5s, a dash and the number of
/// parts.
pub(super) fn etag_of_parts<'a>(etags: impl ExactSizeIterator<Item = &'a str>) -> S3Result<String> {
    let count = etags.len();
    let mut md5 = Md5::new();
    for etag in etags {
        md5.update(&crate::seal::unhex(etag).ok_or_else(|| s3_error!(InternalError))?);
    }
    Ok(format!("{}-{count}", hex(&md5.finalize())))
}

pub(super) fn base64(bytes: &[u8]) -> String {
    base64_simd::STANDARD.encode_to_string(bytes)
}

pub(super) fn unbase64(text: &str) -> Option<Vec<u8>> {
    base64_simd::STANDARD.decode_to_vec(text).ok()
}
