//! Signatures of modules, in the form of WebAssembly's tool conventions ("WebAssembly module
//! signatures", <https://github.com/WebAssembly/tool-conventions/blob/main/Signatures.md>), so that
//! other tools can make and check them. The first section of a signed module is a custom section
//! `signature`. It holds the SHA-256 of the rest of the module and Ed25519 signatures of that hash.
//! Signatures of parts of a module are ignored.
//!
//! Keys are PEM files, as `openssl genpkey -algorithm ed25519` and `openssl pkey -pubout` make
//! them.

use benthic_core::{Error, Result};
use ed25519_compact::{KeyPair, PublicKey, Signature};
use sha2::{Digest, Sha256};
use wasmparser::{BinaryReader, BinaryReaderError, Parser, Payload};

const SECTION: &str = "signature";
/// Version of the form, content type (a module) and hash function (SHA-256).
const FORM: [u8; 3] = [1, 1, 1];
const ED25519: u8 = 1;
/// The limit of the convention for hashes is 64, and for signatures 256.
const SIGNATURES_MAX: u32 = 16;
/// The magic number and the version with which a module begins. They are not signed.
const HEADER: &[u8] = b"\0asm\x01\0\0\0";

/// A key that signs modules.
pub struct SigningKey(KeyPair);

impl SigningKey {
    /// Parses a private key in PEM.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub fn from_pem(pem: &str) -> Result<SigningKey> {
        KeyPair::from_pem(pem).map(SigningKey).map_err(|_| {
            let message =
                "this is not an Ed25519 key; `openssl genpkey -algorithm ed25519 -out deploy.pem` makes one";
            Error::invalid_argument(message)
        })
    }

    /// The public key in PEM.
    pub fn public_pem(&self) -> String {
        self.0.pk.to_pem()
    }

    /// Signs a module. An earlier signature is replaced.
    ///
    /// # Errors
    /// `InvalidArgument` for bytes that are no module.
    pub fn sign(&self, wasm: &[u8]) -> Result<Vec<u8>> {
        let Some(unsigned) = wasm.strip_prefix(HEADER) else {
            return Err(Error::invalid_argument("this is not a WebAssembly module"));
        };
        let signed = signature_section(wasm).map_err(|error| malformed(&error))?;
        let rest = signed.map_or(unsigned, |section| section.rest);
        let hash = Sha256::digest(rest);
        let signature = self.0.sk.sign(message(&hash), None);
        let mut one = Vec::new();
        put_bytes(&mut one, &*self.0.pk);
        one.push(ED25519);
        put_bytes(&mut one, &*signature);
        let mut hashes = vec![1];
        hashes.extend_from_slice(&hash);
        hashes.push(1);
        put_bytes(&mut hashes, &one);
        let mut data = FORM.to_vec();
        data.push(1);
        put_bytes(&mut data, &hashes);
        let mut signed = HEADER.to_vec();
        crate::manifest::put_section(&mut signed, SECTION, &data);
        signed.extend_from_slice(rest);
        Ok(signed)
    }
}

/// The signatures of a module. Their hash is that of the module; which keys made them is not
/// checked.
#[derive(Clone, Debug)]
pub struct Signatures {
    message: Vec<u8>,
    all: Vec<Named>,
}

impl Signatures {
    /// Reads the signatures of a module; none if it is not signed.
    ///
    /// # Errors
    /// `InvalidArgument` if the section is malformed, or signs something else.
    pub fn read(wasm: &[u8]) -> Result<Signatures> {
        let none = Signatures { message: Vec::new(), all: Vec::new() };
        let Some(Section { content, rest }) = signature_section(wasm).map_err(|error| malformed(&error))?
        else {
            return Ok(none);
        };
        let hash = Sha256::digest(rest);
        let all = read_signatures(content, &hash).map_err(|error| malformed(&error))?;
        if all.is_empty() {
            return Err(Error::invalid_argument("the signature is not that of this module; sign it again"));
        }
        Ok(Signatures { message: message(&hash), all })
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether one of the signatures is by this key.
    pub fn are_by(&self, key: &PublicKey) -> bool {
        self.all.iter().any(|(_, signature)| key.verify(&self.message, signature).is_ok())
    }

    /// The public key of the first signature, if Benthic made it. It is not verified.
    pub fn claimed_key(&self) -> Option<PublicKey> {
        self.all.first().and_then(|(key, _)| PublicKey::from_slice(key).ok())
    }
}

fn message(hash: &[u8]) -> Vec<u8> {
    [b"wasmsig", &FORM[..], hash].concat()
}

/// The section `signature` of a module.
struct Section<'a> {
    content: &'a [u8],
    /// The bytes that it signs.
    rest: &'a [u8],
}

fn signature_section(wasm: &[u8]) -> Result<Option<Section<'_>>, BinaryReaderError> {
    if !wasm.starts_with(HEADER) {
        return Ok(None);
    }
    for payload in Parser::new(0).parse_all(wasm).take(2) {
        if let Payload::CustomSection(section) = payload?
            && section.name() == SECTION
        {
            let rest = wasm.get(section.range().end..).unwrap_or_default();
            return Ok(Some(Section { content: section.data(), rest }));
        }
    }
    Ok(None)
}

/// The name that the signer gave to the key, and the signature.
type Named = (Vec<u8>, Signature);

/// The signatures of a hash.
fn read_signatures(data: &[u8], hash: &[u8]) -> Result<Vec<Named>, BinaryReaderError> {
    let mut found = Vec::new();
    let mut reader = BinaryReader::new(data, 0);
    if reader.read_bytes(FORM.len())? != FORM {
        return Ok(found);
    }
    for _ in 0..reader.read_var_u32()?.min(SIGNATURES_MAX) {
        let mut entry = read_part(&mut reader)?;
        let hashes = entry.read_var_u32()?;
        let is_whole = hashes == 1 && entry.read_bytes(32)? == hash;
        if !is_whole {
            continue;
        }
        for _ in 0..entry.read_var_u32()?.min(SIGNATURES_MAX) {
            let mut one = read_part(&mut entry)?;
            let key = read_bytes(&mut one)?.to_vec();
            let algorithm = one.read_u8()?;
            if let (ED25519, Ok(signature)) = (algorithm, Signature::from_slice(read_bytes(&mut one)?))
                && found.len() < SIGNATURES_MAX as usize
            {
                found.push((key, signature));
            }
        }
    }
    Ok(found)
}

fn read_bytes<'a>(reader: &mut BinaryReader<'a>) -> Result<&'a [u8], BinaryReaderError> {
    let len = reader.read_var_u32()?;
    reader.read_bytes(len as usize)
}

fn read_part<'a>(reader: &mut BinaryReader<'a>) -> Result<BinaryReader<'a>, BinaryReaderError> {
    Ok(BinaryReader::new(read_bytes(reader)?, 0))
}

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    crate::manifest::put_leb128(to, bytes.len());
    to.extend_from_slice(bytes);
}

fn malformed(error: &BinaryReaderError) -> Error {
    Error::invalid_argument(format!("the module or its signature is malformed: {error}"))
}

#[cfg(test)]
#[path = "signature_tests.rs"]
pub mod tests;
