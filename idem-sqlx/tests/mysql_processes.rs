//! Several processes on one MariaDB database. The others are this test program again, led over their standard input.
#![cfg(feature = "mysql")]

mod common;
mod suite;

suite::processes_tests!(suite::MySql);
