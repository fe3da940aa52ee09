//! What a fingerprint promises, and that version 1 of the scheme never changes.

mod json;
mod parts;
mod value;
mod vectors;
