//! Clocks beside MariaDB: neither a session's time zone nor a program's time of day changes anything.
#![cfg(feature = "mysql")]

mod common;
mod suite;

suite::clocks_tests!(suite::MySql);
