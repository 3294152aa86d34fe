//! Fuzzes the head of a table.

use benthic_core::ErrorKind;
use benthic_table::head::Head;
use benthic_table::{ACCESS_BYTES_MAX, Access, SHAPES_MAX};

/// Decodes the part of a head that follows the checksum.
pub fn head(input: &[u8]) {
    access(input);
    match Head::decode_message(input) {
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Unsupported), "{error}");
        }
        Ok(head) => {
            // Encoding can make a forged head longer than the limit; then encoding fails.
            let Ok(bytes) = head.encode() else { return };
            let again = Head::decode(&bytes).expect("an encoded head can be decoded");
            assert_eq!(again.snapshots, head.snapshots);
            assert_eq!(again.encode().expect("the head was encoded before"), bytes);
        }
    }
}

/// The records of access of a table.
fn access(input: &[u8]) {
    match Access::decode_message(input) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
        Ok(mut access) => {
            assert!(access.shapes.len() <= SHAPES_MAX);
            access.merge(&Access::default(), 0);
            let bytes = access.encode();
            assert!(bytes.len() <= ACCESS_BYTES_MAX);
            assert_eq!(Access::decode(&bytes).expect("encoded records can be decoded"), access);
        }
    }
}
