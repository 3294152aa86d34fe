use super::{Change, DiffHeader, DiffReader, END, encode_change, encode_header};
use benthic_core::{ErrorKind, Result};
use proptest::proptest;
use std::io::Write;

fn stream() -> Vec<u8> {
    let header = DiffHeader { from: Some("a".into()), to: Some("b".into()), size_bytes: 100 };
    let mut out = encode_header(&header);
    out.write_all(&encode_change(Change::Write { offset_bytes: 10, len_bytes: 3 })).unwrap();
    out.write_all(b"abc").unwrap();
    out.write_all(&encode_change(Change::Zero { offset_bytes: 50, len_bytes: 50 })).unwrap();
    out.push(END);
    out
}

type Changes = Vec<(Change, Vec<u8>)>;

fn read_all(bytes: &[u8]) -> Result<(DiffHeader, Changes)> {
    let mut reader = DiffReader::open(bytes)?;
    let mut changes = Vec::new();
    while let Some(change) = reader.next_change()? {
        changes.push((change, reader.read_data(u64::MAX)?));
    }
    Ok((reader.header().clone(), changes))
}

#[test]
fn a_stream_is_read_back() {
    let (header, changes) = read_all(&stream()).unwrap();
    assert_eq!(
        (header.from.as_deref(), header.to.as_deref(), header.size_bytes),
        (Some("a"), Some("b"), 100)
    );
    let expected = [
        (Change::Write { offset_bytes: 10, len_bytes: 3 }, b"abc".to_vec()),
        (Change::Zero { offset_bytes: 50, len_bytes: 50 }, Vec::new()),
    ];
    assert_eq!(changes, expected);
}

#[test]
fn a_stream_that_ends_early_is_invalid() {
    let stream = stream();
    for len in 0..stream.len() {
        assert_eq!(read_all(&stream[..len]).unwrap_err().kind(), ErrorKind::InvalidArgument, "{len}");
    }
}

proptest! {
    #[test]
    fn damaged_streams_are_refused_or_read(at in 0_usize..100, value: u8) {
        let mut stream = stream();
        let at = at % stream.len();
        stream[at] = value;
        // A false length must not allocate memory: no data are there.
        let _ = DiffReader::open(&stream[..]).and_then(|mut reader| {
            while reader.next_change()?.is_some() {
                while !reader.read_data(4096)?.is_empty() {}
            }
            Ok(())
        });
    }
}
