//! Several processes on one SQLite database. The others are this test program again, led over their standard input.
#![cfg(feature = "sqlite")]

mod common;
mod suite;

suite::processes_tests!(suite::Sqlite);
