//! Random data for tests, the same in every run and on every platform (SplitMix64).

/// A generator that its seed determines fully.
#[derive(Clone, Debug, Default)]
pub struct Rng(pub u64);

impl Rng {
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end.max(1) as u64) as usize
    }

    /// Returns `true` with probability 1 / `places`.
    pub fn one_in(&mut self, places: usize) -> bool {
        self.below(places) == 0
    }

    pub fn text(&mut self, len: usize) -> String {
        (0..len).map(|_| char::from(b' ' + self.below(90) as u8)).collect()
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.number().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}
