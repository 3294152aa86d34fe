//! Results in CBOR (RFC 8949), as Reductionist encodes them.

use super::plan::Outcome;

const UNSIGNED: u8 = 0;
const BYTES: u8 = 2;
const TEXT: u8 = 3;
const ARRAY: u8 = 4;
const MAP: u8 = 5;

/// Encodes a result.
pub fn encode(outcome: &Outcome, shape_as_bytes: bool, count_as_bytes: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(outcome.data.len() + 9 * outcome.counts.len() + 256);
    head(&mut out, MAP, 7);
    text(&mut out, "bytes");
    bytes(&mut out, &outcome.data);
    text(&mut out, "dtype");
    text(&mut out, outcome.dtype.name());
    numbers(&mut out, ["shape", "shape_as_bytes"], &outcome.shape, shape_as_bytes);
    numbers(&mut out, ["count", "count_as_bytes"], &outcome.counts, count_as_bytes);
    text(&mut out, "byte_order");
    text(&mut out, "little");
    out
}

/// Numbers are a list, or the bytes of an array; the other field is empty.
fn numbers(out: &mut Vec<u8>, names: [&str; 2], numbers: &[u64], as_bytes: bool) {
    let (list, array) = if as_bytes { (&[][..], numbers) } else { (numbers, &[][..]) };
    text(out, names[0]);
    head(out, ARRAY, list.len() as u64);
    list.iter().for_each(|number| head(out, UNSIGNED, *number));
    text(out, names[1]);
    head(out, BYTES, 8 * array.len() as u64);
    array.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

fn text(out: &mut Vec<u8>, text: &str) {
    head(out, TEXT, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    head(out, BYTES, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The head of an item: its major type, and a number or length in the shortest form.
fn head(out: &mut Vec<u8>, major: u8, number: u64) {
    let major = major << 5;
    match number {
        0..24 => out.push(major | number as u8),
        24..0x100 => out.extend_from_slice(&[major | 24, number as u8]),
        0x100..0x1_0000 => {
            out.push(major | 25);
            out.extend_from_slice(&(number as u16).to_be_bytes());
        }
        0x1_0000..0x1_0000_0000 => {
            out.push(major | 26);
            out.extend_from_slice(&(number as u32).to_be_bytes());
        }
        _ => {
            out.push(major | 27);
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}

#[cfg(test)]
#[path = "cbor_tests.rs"]
mod tests;
