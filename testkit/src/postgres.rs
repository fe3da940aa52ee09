//! PostgreSQL servers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use futures_util::TryStreamExt as _;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use crate::account::Account;
use crate::server::{Product, Server};
use crate::sql::{self, SqlProduct, USER};

/// A server of PostgreSQL. `IDEM_TEST_POSTGRES_URL` names one that is used instead of a shared one of our own.
pub type PostgresServer = Server<Postgres>;

/// PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub struct Postgres;

impl Product for Postgres {
    const NAME: &str = "PostgreSQL";
    const ACCOUNT: &str = "postgres";
    const READY: &str = "database system is ready to accept connections";
    const PORT_TAKEN: &str = "could not bind";

    fn make_data(account: Account, folder: &Path) {
        let made = account
            .command(&program("initdb"))
            .args(["--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(folder.join("data"))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .expect("an initdb");
        assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
    }

    fn program(account: Account, folder: &Path, port: u16, settings: &[String]) -> Command {
        let mut command = account.command(&program("postgres"));
        command.arg("-D").arg(folder.join("data"));
        command.args(["-p", &port.to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=300",
            "shared_buffers=32MB",
            "logging_collector=off",
            "log_destination=stderr",
        ] {
            command.args(["-c", setting]);
        }
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.env("LC_ALL", "C");
        command
    }

    fn address(port: u16, _: &[String]) -> String {
        sql::address::<Self>(port)
    }
}

impl SqlProduct for Postgres {
    const SCHEME: &str = "postgres";
    const VARIABLE: &str = "IDEM_TEST_POSTGRES_URL";
    const ADMIN: &str = "postgres";

    fn shared() -> &'static OnceLock<PostgresServer> {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        &SHARED
    }

    async fn execute(url: String, sql: String) -> sqlx::Result<()> {
        let mut connection = PgConnection::connect(&url).await?;
        connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
        connection.close().await
    }

    fn drop_database(name: &str) -> String {
        format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    }

    async fn contents(url: String, table: String) -> sqlx::Result<Vec<u8>> {
        let mut connection = PgConnection::connect(&url).await?;
        let copy = connection.copy_out_raw(&format!("COPY {table} TO STDOUT (FORMAT binary)")).await?;
        let parts: Vec<_> = copy.try_collect().await?;
        Ok(parts.concat())
    }
}

/// A program of the newest installation.
fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(installation).join(name)
}

fn installation() -> PathBuf {
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        Some((version, entry.path().join("bin")))
    });
    let path = std::env::var_os("PATH").unwrap_or_default();
    let elsewhere = std::env::split_paths(&path).map(|folder| (0, folder));
    let mut found: Vec<_> = debian.chain(elsewhere).filter(|(_, folder)| is_complete(folder)).collect();
    found.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    let newest = found.into_iter().next().map(|(_, folder)| folder);
    newest.expect("PostgreSQL's server programs: run `scripts/setup`, or set IDEM_TEST_POSTGRES_URL")
}

fn is_complete(folder: &Path) -> bool {
    ["initdb", "postgres"].iter().all(|name| folder.join(name).is_file())
}
