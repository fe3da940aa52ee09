//! SQL stores for idem, through sqlx.
//!
//! `SqliteStore` (feature `sqlite`) keeps records in an SQLite database. All stores here are one generic body over a list
//! of statements for each database; see `dialect/` for their differences.

// Without a database there is nobody to use the generic body.
#![cfg_attr(not(feature = "sqlite"), allow(dead_code))]

mod database;
mod dialect;
mod row;
mod span;
mod step;
mod store;
mod sweeper;
mod table;
mod waiters;

#[cfg(feature = "sqlite")]
pub mod sqlite;

pub use dialect::Migration;
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
pub use store::SqlStore;
pub use sweeper::Sweeper;
pub use table::{TableName, TableNameError};
