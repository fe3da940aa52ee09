//! Faults of MariaDB and the way to it: an error of the right kind, in time, and no lasting harm.
#![cfg(feature = "mysql")]

mod common;
mod suite;

suite::faults_tests!(suite::MySql);
suite::servers_tests!(suite::MySql);
