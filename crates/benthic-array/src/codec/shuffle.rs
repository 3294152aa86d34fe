//! Shuffles: bytes, or bits, of elements grouped by their significance.

/// Reverses a shuffle of bytes, into a buffer of the same length. Bytes after the last whole
/// element stay where they are.
pub fn unshuffle(shuffled: &[u8], element_bytes: usize, out: &mut [u8]) {
    let count = shuffled.len().checked_div(element_bytes).unwrap_or(0);
    if element_bytes <= 1 || count == 0 {
        return out.copy_from_slice(shuffled);
    }
    let (planes, rest) = shuffled.split_at(count * element_bytes);
    match element_bytes {
        2 => interleave::<2>(planes, out),
        4 => interleave::<4>(planes, out),
        8 => interleave::<8>(planes, out),
        _ => {
            for (byte, plane) in planes.chunks_exact(count).enumerate() {
                for (index, value) in plane.iter().enumerate() {
                    out[index * element_bytes + byte] = *value;
                }
            }
        }
    }
    out[count * element_bytes..].copy_from_slice(rest);
}

/// Groups the bytes of elements by their significance: first the first byte of each, and so on.
/// Bytes after the last whole element stay where they are.
pub fn shuffle(data: &[u8], element_bytes: usize) -> Vec<u8> {
    let elements = data.chunks_exact(element_bytes.max(1));
    let rest = elements.remainder();
    let mut out = Vec::with_capacity(data.len());
    for byte in 0..element_bytes.max(1) {
        out.extend(elements.clone().map(|element| element[byte]));
    }
    out.extend_from_slice(rest);
    out
}

/// The common sizes, with a length that the compiler knows.
fn interleave<const N: usize>(planes: &[u8], out: &mut [u8]) {
    let count = planes.len() / N;
    let planes: [&[u8]; N] = std::array::from_fn(|byte| &planes[byte * count..(byte + 1) * count]);
    for (index, element) in out.chunks_exact_mut(N).take(count).enumerate() {
        for (byte, plane) in planes.iter().enumerate() {
            element[byte] = plane[index];
        }
    }
}

/// Reverses a shuffle of bits as the library bitshuffle does it: the first row has bit 0 of byte 0
/// of every element, the next one bit 1, and so on. It applies if the number of elements is a
/// multiple of eight. The buffer has the same length.
pub fn unshuffle_bits(shuffled: &[u8], element_bytes: usize, out: &mut [u8]) {
    let count = shuffled.len().checked_div(element_bytes).unwrap_or(0);
    if count == 0 || !count.is_multiple_of(8) {
        return out.copy_from_slice(shuffled);
    }
    let row_bytes = count / 8;
    for byte in 0..element_bytes {
        let rows = &shuffled[byte * 8 * row_bytes..(byte + 1) * 8 * row_bytes];
        for group in 0..row_bytes {
            let bits = u64::from_le_bytes(std::array::from_fn(|bit| rows[bit * row_bytes + group]));
            for (index, value) in transpose_bits(bits).to_le_bytes().into_iter().enumerate() {
                out[(group * 8 + index) * element_bytes + byte] = value;
            }
        }
    }
    let whole = count * element_bytes;
    out[whole..].copy_from_slice(&shuffled[whole..]);
}

/// Transposes a matrix of 8 × 8 bits, a row a byte (Warren, "Hacker's Delight", section 7-3).
fn transpose_bits(mut bits: u64) -> u64 {
    let mut swap = |distance: u32, mask: u64| {
        let changed = (bits ^ (bits >> distance)) & mask;
        bits ^= changed ^ (changed << distance);
    };
    swap(7, 0x00AA_00AA_00AA_00AA);
    swap(14, 0x0000_CCCC_0000_CCCC);
    swap(28, 0x0000_0000_F0F0_F0F0);
    bits
}
