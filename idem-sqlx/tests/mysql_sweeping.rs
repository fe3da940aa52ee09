//! Sweeping on MariaDB: what is gone is deleted, nothing else is, and nobody waits long.
#![cfg(feature = "mysql")]

mod common;
mod suite;

suite::sweeping_tests!(suite::MySql);
suite::cases!(suite::MySql, sweeping: a_sweeper_leaves_to_others_what_they_are_at);
