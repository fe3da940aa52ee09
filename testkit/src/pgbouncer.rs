//! `PgBouncer`: a proxy before a server of PostgreSQL, whose connections its clients share.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::OnceLock;

use crate::account::Account;
use crate::postgres::PostgresServer;
use crate::process;
use crate::server::{free_port, start};
use crate::sql::USER;
use crate::watchdog::Watchdog;

/// What it logs when another has its port.
const PORT_TAKEN: &str = "nowhere to listen on";

/// A `PgBouncer` that hands out a server's connections for a transaction each.
///
/// It runs until it is dropped or the test process ends.
#[derive(Debug)]
pub struct PgBouncer {
    // Dropped first: nobody is to be left when the folder is removed.
    _running: Child,
    _watchdog: Watchdog,
    port: u16,
}

impl PgBouncer {
    /// Starts one before a server of our own, with so many connections to each of its databases.
    ///
    /// # Panics
    ///
    /// When it cannot be started; says what to do.
    pub fn before(server: &PostgresServer, connections: usize) -> Self {
        let account = Account::for_server("postgres");
        let watchdog = Watchdog::with_folder();
        account.own(watchdog.folder());
        let settings = watchdog.folder().join("pgbouncer.ini");
        let mut attempts = 0;
        loop {
            let port = free_port();
            fs::write(&settings, text(server.port(), port, connections)).expect("a file");
            let mut command = account.command(program());
            command.arg(&settings);
            match start(command, &watchdog, "process up: PgBouncer") {
                Ok(running) => return Self { _running: running, _watchdog: watchdog, port },
                // Somebody else took the port meanwhile.
                Err(log) if log.contains(PORT_TAKEN) && attempts < 10 => attempts += 1,
                Err(log) => panic!("PgBouncer does not start: {log}"),
            }
        }
    }

    /// The URL of one of the server's databases, by way of the proxy.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://{USER}@127.0.0.1:{}/{database}", self.port)
    }
}

/// The settings are the program's own, but for where it listens and how connections are handed out.
fn text(server: u16, port: u16, connections: usize) -> String {
    format!(
        "[databases]
* = host=127.0.0.1 port={server} user={USER}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 1000
"
    )
}

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| process::program("pgbouncer").expect("PgBouncer's program: run `scripts/setup`"))
}
