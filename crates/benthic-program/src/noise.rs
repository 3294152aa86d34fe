//! Deterministic pseudo-random data for tests and benchmarks: it does not compress and is the same
//! in every run (SplitMix64).

/// A pseudo-random number generator that is fully determined by its seed.
pub struct Noise(u64);

impl Noise {
    /// Creates a generator. Each seed gives a different sequence.
    pub fn new(seed: u64) -> Noise {
        Noise(seed)
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number less than `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// The next `len_bytes` bytes.
    pub fn bytes(&mut self, len_bytes: usize) -> Vec<u8> {
        let mut data = Vec::with_capacity(len_bytes + 8);
        while data.len() < len_bytes {
            data.extend_from_slice(&self.next_u64().to_le_bytes());
        }
        data.truncate(len_bytes);
        data
    }
}
