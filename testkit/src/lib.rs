//! Private database servers for tests.
//!
//! A server is started from the installed binaries on a free loopback port, with its data in a temporary folder and as a
//! user that is not root. It is gone when its owner is dropped or the test process ends, in whatever way. One server is
//! shared by the tests of a program; who wants to kill or pause one starts one of his own.
//!
//! `scripts/setup` installs what is needed on Debian. `IDEM_TEST_POSTGRES_URL` names a server that is used instead of a
//! shared one of our own.

mod account;
mod log;
mod postgres;
mod process;
mod proxy;
mod watchdog;

pub use postgres::{Database, PostgresServer};
pub use proxy::Proxy;
