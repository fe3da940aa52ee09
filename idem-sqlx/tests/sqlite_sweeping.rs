//! Sweeping on SQLite: what is gone is deleted, nothing else is, and nobody waits long.
#![cfg(feature = "sqlite")]

mod common;
mod suite;

suite::sweeping_tests!(suite::Sqlite);
