//! Dice: numbers that look random and are the same for the same seed.

use std::time::Duration;

/// A seeded source of numbers (`SplitMix64`).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// The same numbers in the same order for the same seed and lane.
    pub fn new(seed: u64, lane: u64) -> Self {
        let mut dice = Self(seed ^ lane.wrapping_mul(0xd134_2543_de82_ef95));
        dice.roll();
        dice
    }

    /// Any number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below another, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// Whether something happens that does so many times of a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// A time of so many milliseconds at least, and fewer than so many.
    pub fn between(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }

    /// Puts things in an order of its own.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for end in (1..things.len()).rev() {
            let other = self.below(end as u64 + 1) as usize;
            things.swap(end, other);
        }
    }
}
