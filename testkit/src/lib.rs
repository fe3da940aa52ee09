//! Private database servers for tests, and what tests of stores have in common.
//!
//! A server is started from the installed binaries on a free loopback port, with its data in a temporary folder and as a
//! user that is not root. It is gone when its owner is dropped or the test process ends, in whatever way. One server is
//! shared by the tests of a program; who wants to kill or pause one starts one of his own.
//!
//! `scripts/setup` installs what is needed on Debian. `IDEM_TEST_POSTGRES_URL`, `IDEM_TEST_MYSQL_URL` and
//! `IDEM_TEST_REDIS_URL` name servers that are used instead of shared ones of our own.

mod account;
mod certificates;
mod clock;
mod database;
mod log;
mod mariadb;
mod nginx;
mod pgbouncer;
pub mod play;
mod postgres;
mod process;
mod proxy;
mod redis;
mod server;
mod sql;
pub mod stores;
mod unreliable;
mod watchdog;

pub use account::Account;
pub use certificates::Certificates;
pub use clock::shift_clock;
pub use database::Database;
pub use mariadb::{MariaDb, MariaDbServer};
pub use nginx::Nginx;
pub use pgbouncer::PgBouncer;
pub use postgres::{Postgres, PostgresServer};
pub use proxy::Proxy;
pub use redis::{
    History, Migration, Redis, RedisCluster, RedisConnection, RedisProduct, RedisSentinels, RedisServer,
    Reply, Sentinel, redis_namespace,
};
pub use server::{Product, Server};
pub use sql::SqlProduct;
pub use unreliable::{Fault, UnreliableWay};
