//! What stores in servers have in common: a record as it is kept there, spans of its clock, and those who wait.
//!
//! For those who write such a store: `idem-sqlx` and `idem-redis` are built on it. What a row means to a claim is decided
//! here and nowhere else; a server only has to change a row if it is still as it was read.

pub mod ear;
pub mod row;
pub mod span;
pub mod waiters;
