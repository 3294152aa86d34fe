//! Medians, and data to measure with.

use std::time::Instant;

/// The middle one. 0 of nothing.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Seconds since then.
pub fn seconds(started_at: Instant) -> f64 {
    started_at.elapsed().as_secs_f64()
}

/// Bytes that nothing can compress, the same in every run.
pub fn noise(len_bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(len_bytes + 8);
    while bytes.len() < len_bytes {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(len_bytes);
    bytes
}
