//! What is asked of any store, whatever it keeps its records in.

pub mod claims;
pub mod clocks;
pub mod killed;
pub mod race;
pub mod steps;
pub mod writers;
