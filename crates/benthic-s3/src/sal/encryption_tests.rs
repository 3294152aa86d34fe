use super::{DataKey, FRAME_BYTES, stored_len};
use crate::sal::Id;
use bytes::{Bytes, BytesMut};

#[test]
fn data_that_nobody_else_has_are_encrypted_in_place() {
    let key = DataKey::from_bytes([7; 32]).write_key(Id([1; 16])).unwrap();
    for len_bytes in [1, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 3 * FRAME_BYTES + 5] {
        let data: Vec<u8> = (0..len_bytes).map(|at| (at % 251) as u8).collect();
        let shared = Bytes::copy_from_slice(&data);
        let copied = key.seal(3, shared.clone()).unwrap();
        assert!(shared == data, "the data of the other owner stay");
        let mut own = BytesMut::with_capacity(stored_len(len_bytes) as usize);
        own.extend_from_slice(&data);
        let place = own.as_ptr();
        let sealed = key.seal(3, own.freeze()).unwrap();
        assert_eq!((sealed.as_ptr(), sealed.len() as u64), (place, stored_len(len_bytes)));
        assert!(sealed == copied);
        assert!(key.open(3, 0..len_bytes, &sealed).unwrap() == data);
        assert!(key.open(2, 0..len_bytes, &sealed).is_err(), "another place has another nonce");
    }
}
