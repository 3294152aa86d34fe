use super::{Signatures, SigningKey};
use crate::ModuleId;
use benthic_core::ErrorKind;
use ed25519_compact::PublicKey;

/// Made by `openssl genpkey -algorithm ed25519`, for tests only.
pub const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEICsVkz97bQ2x1AknP6eyeBOnJYoOdZM2b1fDk9yN+Q1J\n\
    -----END PRIVATE KEY-----\n";

const EMPTY: &[u8] = b"\0asm\x01\0\0\0";

fn key() -> (SigningKey, PublicKey) {
    let key = SigningKey::from_pem(KEY).unwrap();
    let public = PublicKey::from_pem(&key.public_pem()).unwrap();
    (key, public)
}

#[test]
fn a_signature_is_that_of_the_whole_module() {
    let (key, public) = key();
    let module = crate::with_manifest(EMPTY, b"{}");
    assert!(Signatures::read(&module).unwrap().is_empty());
    let signed = key.sign(&module).unwrap();
    let signatures = Signatures::read(&signed).unwrap();
    assert!(signatures.are_by(&public));
    assert_eq!(signatures.claimed_key(), Some(public));
    // A second signature replaces the first.
    assert_eq!(ModuleId::of(&key.sign(&signed).unwrap()), ModuleId::of(&signed));

    let other = ed25519_compact::KeyPair::from_seed(ed25519_compact::Seed::new([7; 32])).pk;
    assert!(!signatures.are_by(&other));
    // No changed byte goes unnoticed, and no byte that follows.
    for at in 0..signed.len() {
        let mut changed = signed.clone();
        changed[at] ^= 1;
        assert!(
            !Signatures::read(&changed).is_ok_and(|signatures| {
                // The name of the key is not signed.
                signatures.are_by(&public) && signatures.claimed_key() == Some(public)
            }),
            "{at}"
        );
    }
    let longer = [&signed[..], &[0, 1, 0]].concat();
    assert_eq!(Signatures::read(&longer).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn malformed_modules_are_refused() {
    let (key, _) = key();
    let signed = key.sign(&crate::with_manifest(EMPTY, b"{}")).unwrap();
    for len in 0..signed.len() {
        assert!(!Signatures::read(&signed[..len]).is_ok_and(|found| !found.is_empty()), "{len}");
    }
    assert_eq!(key.sign(b"not wasm").unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(SigningKey::from_pem("").is_err());
}
