//! Servers of databases that speak SQL.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::database::Database;
use crate::server::{Product, Server};

/// The user of a server of our own, who may do everything and has no password.
pub(crate) const USER: &str = "idem";

/// What tells one database server from another.
pub trait SqlProduct: Product {
    /// How its URLs begin.
    const SCHEME: &str;
    /// The environment variable that names a server to use instead of a shared one of our own.
    const VARIABLE: &str;
    /// The database that is always there.
    const ADMIN: &str;

    /// Where this program's server is kept.
    fn shared() -> &'static OnceLock<Server<Self>>;

    /// Connects and executes one statement.
    fn execute(url: String, sql: String) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Drops a database, and whoever is connected to it.
    fn drop_database(name: &str) -> String;

    /// Reads all that a table holds, byte for byte.
    fn contents(url: String, table: String) -> impl Future<Output = sqlx::Result<Vec<u8>>> + Send;
}

impl<P: SqlProduct> Server<P> {
    /// The server of this program's tests: started by the first who asks, ended with the process.
    ///
    /// # Panics
    ///
    /// When it cannot be started; says what to do.
    pub fn shared() -> &'static Self {
        P::shared().get_or_init(|| match std::env::var(P::VARIABLE) {
            Ok(url) if !url.is_empty() => Self::at(url),
            _ => Self::start(&[]),
        })
    }

    /// The URL of a database on this server.
    pub fn url(&self, database: &str) -> String {
        let (before, after) = without_database(self.address());
        format!("{before}/{database}{after}")
    }

    /// Makes an empty database.
    ///
    /// # Panics
    ///
    /// When the server does not let us.
    pub async fn database(&self) -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("idem_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let admin = self.url(P::ADMIN);
        P::execute(admin.clone(), format!("CREATE DATABASE {name}")).await.expect("a new database");
        // A server of our own takes its databases with it.
        Database::new::<P>(self.url(&name), name, (!self.is_ours()).then_some(admin))
    }
}

/// The address of a server of our own.
pub(crate) fn address<P: SqlProduct>(port: u16) -> String {
    format!("{}://{USER}@127.0.0.1:{port}", P::SCHEME)
}

/// Takes a URL apart at its database: what comes before its name, and what after it.
fn without_database(url: &str) -> (&str, &str) {
    let (address, options) = url.split_at(url.find('?').unwrap_or(url.len()));
    let authority = address.find("://").map_or(0, |at| at + 3);
    let end = address[authority..].find('/').map_or(address.len(), |at| authority + at);
    (&address[..end], options)
}
