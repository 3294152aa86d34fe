// The work that is measured. The native class and the module compile this same source.

use md5::{Digest, Md5};

/// Does nothing.
pub fn empty(_data: &[u8]) -> Vec<u8> {
    Vec::new()
}

/// The MD5 of the data.
pub fn md5(data: &[u8]) -> Vec<u8> {
    Md5::digest(data).to_vec()
}

/// The number of lines that contain a word.
pub fn lines(data: &[u8]) -> Vec<u8> {
    let word = b"needle";
    let found =
        data.split(|byte| *byte == b'\n').filter(|line| line.windows(word.len()).any(|part| part == word));
    (found.count() as u64).to_le_bytes().to_vec()
}

/// The sum of a field of JSON lines.
pub fn json(data: &[u8]) -> Vec<u8> {
    let field = |line: &[u8]| serde_json::from_slice::<serde_json::Value>(line).ok()?["n"].as_u64();
    let sum: u64 = data.split(|byte| *byte == b'\n').filter_map(field).fold(0, u64::wrapping_add);
    sum.to_le_bytes().to_vec()
}

/// The brightness of a grey image of 2048 pixels a row, scaled down to a quarter of the width and
/// the height.
pub fn scale(data: &[u8]) -> Vec<u8> {
    let (width, factor) = (2048, 4);
    let small = width / factor;
    let mut pixels = vec![0_u8; small * (data.len() / width / factor)];
    for (index, pixel) in pixels.iter_mut().enumerate() {
        let (row, column) = (index / small * factor, index % small * factor);
        let rows = (row..row + factor).map(|row| &data[row * width + column..][..factor]);
        let sum: u32 = rows.flatten().map(|pixel| u32::from(*pixel)).sum();
        *pixel = (sum / (factor * factor) as u32) as u8;
    }
    pixels.iter().map(|pixel| u64::from(*pixel)).sum::<u64>().to_le_bytes().to_vec()
}

/// The sum of a column where another one has certain values, in rows of 16 bytes.
pub fn filter(data: &[u8]) -> Vec<u8> {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    let rows = data.chunks_exact(16).map(|row| (number(&row[..8]), number(&row[8..])));
    let sum = rows.filter(|(key, _)| key % 10 == 3).fold(0_u64, |sum, (_, value)| sum.wrapping_add(value));
    sum.to_le_bytes().to_vec()
}
