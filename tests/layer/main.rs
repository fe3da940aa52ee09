//! The layer: what is its own, beside what it shares with the attribute (`tests/behaviour`, `tests/axum_adapter`).

#![cfg(all(feature = "axum", feature = "memory", feature = "sqlite", feature = "tower"))]

mod claims;
mod client;
mod encodings;
mod rejections;
mod rules;
mod services;
mod streams;
