//! SQL stores for idem, through sqlx.
//!
//! `PostgresStore` (feature `postgres`) keeps records in a PostgreSQL database, `MySqlStore` (feature `mysql`) in one of
//! MySQL or MariaDB, `SqliteStore` (feature `sqlite`) in an SQLite one. All stores here are one generic body over a list of statements for each database; see `dialect/` for their
//! differences.

// Each database uses its part of the generic body.
#![cfg_attr(not(all(feature = "mysql", feature = "postgres", feature = "sqlite")), allow(dead_code))]

#[cfg(any(feature = "mysql", feature = "postgres"))]
mod attempts;
mod database;
mod dialect;
mod fault;
mod held;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod hex;
#[cfg(feature = "mysql")]
mod lines;
mod pauses;
mod record;
mod step;
mod store;
mod sweeper;
mod table;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod tls;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod to_the_end;
mod transaction;
mod transactional;
#[cfg(any(feature = "mysql", feature = "postgres"))]
mod unlogged;

#[cfg(feature = "mysql")]
pub mod mysql;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "sqlite")]
pub mod sqlite;

use idem_core::stored::{row, span, waiters};

pub use dialect::Migration;
#[cfg(feature = "mysql")]
pub use mysql::MySqlStore;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use store::SqlStore;
pub use sweeper::Sweeper;
pub use table::{TableName, TableNameError};
