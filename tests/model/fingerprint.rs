//! 128 bits that stand for a state.
//!
//! At 10^9 states the odds that any two share a fingerprint are about 1 in 10^21, so a state is
//! taken for visited when its fingerprint is.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// 128 bits, in two halves to spare the alignment of `u128`.
pub type Fingerprint = [u64; 2];

const ODD: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xd1b5_4a32_d192_ed03];

fn fold(a: u64, b: u64) -> u64 {
    let wide = u128::from(a) * u128::from(b);
    (wide as u64) ^ ((wide >> 64) as u64)
}

/// Two lanes that take in every word under different constants.
pub struct Mixer([u64; 2]);

impl Default for Mixer {
    fn default() -> Self {
        Self([0x2545_f491_4f6c_dd1d, 0x6a09_e667_f3bc_c909])
    }
}

impl Mixer {
    fn word(&mut self, word: u64) {
        let [one, two] = self.0;
        self.0 = [
            fold(one ^ word, ODD[0]).wrapping_add(word),
            fold(two ^ word.rotate_left(29), ODD[1]).wrapping_sub(word),
        ];
    }

    pub fn fingerprint(&self) -> Fingerprint {
        let [one, two] = self.0;
        [fold(one ^ two.rotate_left(17), ODD[1]), fold(two ^ one.rotate_left(41), ODD[0])]
    }
}

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.fingerprint()[0]
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
        self.word(bytes.len() as u64);
    }
}

pub fn of_bytes(bytes: &[u8]) -> Fingerprint {
    let mut mixer = Mixer::default();
    mixer.write(bytes);
    mixer.fingerprint()
}

pub fn of_value(value: &impl Hash) -> Fingerprint {
    let mut mixer = Mixer::default();
    value.hash(&mut mixer);
    mixer.fingerprint()
}

/// For keys that are well mixed already: the first word is the hash.
#[derive(Default)]
pub struct Taken(u64);

impl Hasher for Taken {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = u64::from_ne_bytes(bytes[..8].try_into().expect("a word"));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = fold(word, ODD[0]);
    }

    /// The length of a fingerprint says nothing.
    fn write_usize(&mut self, _: usize) {}
}

pub type ByFingerprint<V> = HashMap<Fingerprint, V, BuildHasherDefault<Taken>>;
pub type ByWord<V> = HashMap<u64, V, BuildHasherDefault<Taken>>;

#[test]
fn tells_small_differences_apart() {
    let mut seen = ByFingerprint::default();
    for n in 0..200_000u32 {
        let mut bytes = [0; 37];
        bytes[..4].copy_from_slice(&n.to_le_bytes());
        assert_eq!(seen.insert(of_bytes(&bytes), n), None);
    }
}
