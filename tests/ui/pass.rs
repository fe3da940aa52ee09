//! What compiles, and runs where that is worth it. Each module denies what rustc warns of by default.

// The lints of a user, which are not ours.
#![allow(
    clippy::all,
    clippy::pedantic,
    dead_code,
    missing_debug_implementations,
    missing_docs,
    rust_2018_idioms,
    unreachable_pub,
    unused_qualifications
)]

mod actix;
mod functions;
mod handlers;
mod names;
mod transactions;

/// The engine of those that name none: one for all, since a process has one.
fn set_global() {
    static SET: std::sync::Once = std::sync::Once::new();
    SET.call_once(|| idem::set_global(idem::Idempotency::new(idem::MemoryStore::new())).unwrap());
}
