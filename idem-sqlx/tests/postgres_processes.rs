//! Several processes on one PostgreSQL database. The others are this test program again, led over their standard input.
#![cfg(feature = "postgres")]

mod common;
mod suite;

suite::processes_tests!(suite::Postgres);
