//! Enough randomness to choose what happens, and a seed to choose it again.

use std::time::{SystemTime, UNIX_EPOCH};

pub struct Dice(u64);

#[allow(dead_code)]
impl Dice {
    /// With the seed of the environment, or a new one that is printed.
    pub fn new() -> Self {
        let seed = std::env::var("PORTALOCK_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let seed = seed.unwrap_or_else(now) | 1;
        println!("PORTALOCK_SEED={seed}");
        Self(seed)
    }

    /// With this seed.
    pub fn with_seed(seed: u64) -> Self {
        Self(seed | 1)
    }

    /// Others, for a thread of its own.
    pub fn child(&mut self, number: u64) -> Self {
        self.below(2);
        Self((self.0 ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % limit
    }
}
