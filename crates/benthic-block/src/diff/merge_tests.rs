use super::merge;
use crate::diff::{Change, DiffHeader, DiffReader, END, encode_change, encode_header};
use benthic_core::{ErrorKind, Result};
use proptest::prelude::{Just, Strategy, any, prop, prop_oneof, proptest};

const SIZE_MAX: u64 = 64;

/// Gaps, lengths and data: `None` for zeros.
type Parts = Vec<(u64, u64, Option<u8>)>;

fn stream(from: Option<&str>, to: Option<&str>, size_bytes: u64, parts: &Parts) -> Vec<u8> {
    let header = DiffHeader { from: from.map(Into::into), to: to.map(Into::into), size_bytes };
    let mut out = encode_header(&header);
    let mut at = 0;
    for (gap, len, data) in parts {
        let offset_bytes = at + gap;
        let len_bytes = (*len).min(size_bytes.saturating_sub(offset_bytes));
        if len_bytes == 0 {
            break;
        }
        match data {
            Some(byte) => {
                out.extend(encode_change(Change::Write { offset_bytes, len_bytes }));
                out.extend(vec![*byte; len_bytes as usize]);
            }
            None => out.extend(encode_change(Change::Zero { offset_bytes, len_bytes })),
        }
        at = offset_bytes + len_bytes;
    }
    out.push(END);
    out
}

fn merged(first: &[u8], second: &[u8]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    merge(DiffReader::open(first)?, DiffReader::open(second)?, &mut |data: &[u8]| {
        out.extend(data);
        Ok(())
    })?;
    Ok(out)
}

fn apply(image: &mut Vec<u8>, stream: &[u8]) {
    let mut reader = DiffReader::open(stream).unwrap();
    image.resize(reader.header().size_bytes as usize, 0);
    while let Some(change) = reader.next_change().unwrap() {
        let (offset_bytes, data) = match change {
            Change::Write { offset_bytes, .. } => (offset_bytes, reader.read_data(u64::MAX).unwrap()),
            Change::Zero { offset_bytes, len_bytes } => (offset_bytes, vec![0; len_bytes as usize]),
        };
        image[offset_bytes as usize..][..data.len()].copy_from_slice(&data);
    }
}

fn parts() -> impl Strategy<Value = Parts> {
    let data = prop_oneof![Just(None), any::<u8>().prop_map(Some)];
    prop::collection::vec((0..9_u64, 1..12_u64, data), 0..9)
}

proptest! {
    #[test]
    fn merged_changes_do_what_both_do(
        first in parts(), second in parts(), sizes in [0..SIZE_MAX, 0..SIZE_MAX, 0..SIZE_MAX], full: bool,
    ) {
        let from = (!full).then_some("a");
        let first = stream(from, Some("b"), sizes[1], &first);
        let second = stream(Some("b"), Some("c"), sizes[2], &second);
        let one = merged(&first, &second).unwrap();
        let start = if full { Vec::new() } else { vec![0xEE; sizes[0] as usize] };
        let (mut expected, mut image) = (start.clone(), start);
        apply(&mut expected, &first);
        apply(&mut expected, &second);
        apply(&mut image, &one);
        assert_eq!(image, expected);
        let header = DiffReader::open(&one[..]).unwrap().header().clone();
        assert_eq!((header.from.as_deref(), header.to.as_deref()), (from, Some("c")));
    }
}

#[test]
fn streams_that_do_not_join_are_refused() {
    let part = vec![(1, 2, Some(7))];
    let first = stream(Some("a"), Some("b"), 10, &part);
    let kind = |first: &[u8], second: &[u8]| merged(first, second).unwrap_err().kind();
    for second in [
        stream(Some("a"), Some("b"), 10, &part),
        stream(None, Some("c"), 10, &part),
        first[..first.len() - 1].to_vec(),
    ] {
        assert_eq!(kind(&first, &second), ErrorKind::InvalidArgument);
    }
    // One that ends at the image itself has no successor.
    let open = stream(Some("a"), None, 10, &part);
    assert_eq!(kind(&open, &stream(Some("b"), Some("c"), 10, &part)), ErrorKind::InvalidArgument);
    let mut unordered = stream(Some("b"), Some("c"), 10, &vec![(5, 2, Some(7))]);
    unordered.pop();
    unordered.extend(encode_change(Change::Zero { offset_bytes: 6, len_bytes: 1 }));
    unordered.push(END);
    assert_eq!(kind(&first, &unordered), ErrorKind::InvalidArgument);
}
