//! Sweeping on PostgreSQL: what is gone is deleted, nothing else is, and nobody waits long.
#![cfg(feature = "postgres")]

mod common;
mod suite;

suite::sweeping_tests!(suite::Postgres);
suite::cases!(suite::Postgres, sweeping: a_sweeper_leaves_to_others_what_they_are_at);
