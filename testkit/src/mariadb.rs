//! MariaDB servers.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use sqlx::mysql::MySqlConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Row as _};

use crate::account::Account;
use crate::process;
use crate::server::{Product, Server};
use crate::sql::{self, SqlProduct, USER};

/// A server of MariaDB. `IDEM_TEST_MYSQL_URL` names one that is used instead of a shared one of our own.
///
/// Settings are options of `mariadbd`, such as `tx_isolation=SERIALIZABLE`. Whoever connects without a password as `idem`
/// may do everything. Of the named time zones `Pacific/Kiritimati` is there, at +14 hours, which no offset reaches.
pub type MariaDbServer = Server<MariaDb>;

/// MariaDB.
#[derive(Debug, Clone, Copy)]
pub struct MariaDb;

/// The tables that a server wants, which its package has as text.
const TABLES: [&str; 2] = ["system_tables.sql", "performance_tables.sql"];

impl Product for MariaDb {
    const NAME: &str = "MariaDB";
    const ACCOUNT: &str = "mysql";
    const READY: &str = "ready for connections";
    const PORT_TAKEN: &str = "Bind on TCP/IP port";

    /// Does what `mariadb-install-db` does, without help texts and the `sys` schema. That takes 0.3 seconds, and none of
    /// the client's programs, which the script asks for.
    fn make_data(account: Account, folder: &Path) {
        let data = folder.join("data");
        fs::create_dir(&data).expect("a folder");
        account.own(&data);
        let (tables, made) = (folder.join("tables.sql"), folder.join("made.log"));
        fs::write(&tables, first_statements()).expect("a file");
        let log = File::create(&made).expect("a file");
        let done = account
            .command(program())
            .args(["--no-defaults", "--bootstrap", "--enforce-storage-engine=", "--log-warnings=0"])
            // What is lost here is begun anew: nothing has to reach the disk.
            .args(["--innodb-flush-log-at-trx-commit=0", "--skip-innodb-doublewrite"])
            .args([
                "--innodb-buffer-pool-size=32M",
                "--innodb-log-file-size=32M",
                "--innodb-use-native-aio=0",
            ])
            .arg(option("datadir", &data))
            // A server that starts removes what it finds there of temporary tables, be they another's.
            .arg(option("tmpdir", folder))
            .current_dir(folder)
            .stdin(File::open(&tables).expect("a file"))
            .stdout(Stdio::null())
            .stderr(log)
            .status()
            .expect("a server's program");
        assert!(done.success(), "no tables for MariaDB: {}", fs::read_to_string(made).unwrap_or_default());
    }

    /// Commits reach the disk as they do by default (`innodb_flush_log_at_trx_commit=1`, doublewrite): what is set here
    /// saves memory and time at the start.
    fn program(account: Account, folder: &Path, port: u16, settings: &[String]) -> Command {
        let mut command = account.command(program());
        command.args(["--no-defaults", "--bind-address=127.0.0.1", "--socket=", "--skip-name-resolve"]);
        command.args(["--max-connections=300", "--character-set-server=utf8mb4"]);
        command.args([
            "--innodb-log-file-size=32M",
            "--innodb-buffer-pool-dump-at-shutdown=0",
            "--innodb-buffer-pool-load-at-startup=0",
            // The kernel has a number of requests for all servers together.
            "--innodb-use-native-aio=0",
        ]);
        command.arg(format!("--port={port}"));
        command.arg(option("datadir", &folder.join("data"))).arg(option("tmpdir", folder));
        command.args(settings.iter().map(|setting| format!("--{setting}")));
        command
    }

    fn address(port: u16, _: &[String]) -> String {
        sql::address::<Self>(port)
    }
}

impl SqlProduct for MariaDb {
    const SCHEME: &str = "mysql";
    const VARIABLE: &str = "IDEM_TEST_MYSQL_URL";
    const ADMIN: &str = "mysql";

    fn shared() -> &'static OnceLock<MariaDbServer> {
        static SHARED: OnceLock<MariaDbServer> = OnceLock::new();
        &SHARED
    }

    async fn execute(url: String, sql: String) -> sqlx::Result<()> {
        let mut connection = MySqlConnection::connect(&url).await?;
        connection.execute(sqlx::raw_sql(AssertSqlSafe(sql))).await?;
        connection.close().await
    }

    fn drop_database(name: &str) -> String {
        format!("DROP DATABASE IF EXISTS {name}")
    }

    async fn contents(url: String, table: String) -> sqlx::Result<Vec<u8>> {
        let mut connection = MySqlConnection::connect(&url).await?;
        // As text: every value comes as the bytes that it is shown by.
        let rows =
            connection.fetch_all(sqlx::raw_sql(AssertSqlSafe(format!("SELECT * FROM {table}")))).await?;
        let mut all = Vec::new();
        for row in rows {
            for column in 0..row.len() {
                all.extend(row.try_get_unchecked::<Option<Vec<u8>>, _>(column)?.unwrap_or_default());
            }
        }
        Ok(all)
    }
}

fn option(name: &str, value: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(format!("--{name}="));
    option.push(value);
    option
}

/// The statements that make the tables of a server, its user and its time zone, each ended by the end of a line.
fn first_statements() -> String {
    let prefix = program().ancestors().nth(2).expect("a program in a folder");
    let texts = TABLES.map(|name| {
        let places =
            [("mariadb", "mariadb_"), ("mariadb", "mysql_"), ("mysql", "mariadb_"), ("mysql", "mysql_")];
        let found = places.iter().find_map(|(folder, start)| {
            fs::read_to_string(prefix.join("share").join(folder).join(format!("{start}{name}"))).ok()
        });
        found.unwrap_or_else(|| panic!("MariaDB's {name}, below {}", prefix.join("share").display()))
    });
    let [system, performance] = texts;
    format!(
        "CREATE DATABASE mysql;
USE mysql;
{system}
{performance}
INSERT INTO global_priv VALUES ('%', '{USER}', '{{\"access\":18446744073709551615}}');
INSERT INTO time_zone VALUES (1, 'N');
INSERT INTO time_zone_name VALUES ('Pacific/Kiritimati', 1);
INSERT INTO time_zone_transition_type VALUES (1, 0, 50400, 0, '+14');
"
    )
}

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        process::program("mariadbd")
            .expect("MariaDB's server program: run `scripts/setup`, or set IDEM_TEST_MYSQL_URL")
    })
}
