//! The contract on MariaDB, where the conformance suite does not look: what is written and asked, and by which clock.
#![cfg(feature = "mysql")]

mod common;
mod suite;

suite::steps_tests!(suite::MySql);
suite::cases!(suite::MySql, steps: each_step_is_one_statement_and_one_trip);
