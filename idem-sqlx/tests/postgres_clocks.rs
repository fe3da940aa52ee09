//! Clocks beside PostgreSQL: neither a session's time zone nor a program's time of day changes anything.
#![cfg(feature = "postgres")]

mod common;
mod suite;

suite::clocks_tests!(suite::Postgres);
