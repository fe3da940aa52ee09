//! What the fuzzer runs; `tests/fuzz_corpus.rs` of the main workspace replays the corpus with it on every change.
#![forbid(unsafe_code)]

mod targets;

pub use targets::{answer, duration, form, json, key, multipart, record, retry_after, sealed};
