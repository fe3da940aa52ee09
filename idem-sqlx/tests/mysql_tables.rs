//! Tables of MariaDB: their names and their migrations.
#![cfg(feature = "mysql")]

mod common;
mod suite;

suite::tables_tests!(suite::MySql);
