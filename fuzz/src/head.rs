//! Fuzzes the head of a table.

use benthic_core::ErrorKind;
use benthic_table::head::Head;

/// Decodes the part of a head that follows the checksum.
pub fn head(input: &[u8]) {
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
