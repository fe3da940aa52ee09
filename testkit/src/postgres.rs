//! PostgreSQL servers.

use std::fs;
use std::future::Future;
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::TryStreamExt as _;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use crate::account::Account;
use crate::log::Log;
use crate::process::{family, signal, wait_until_gone};
use crate::watchdog::Watchdog;

const USER: &str = "idem";
const READY: &str = "database system is ready to accept connections";

/// A server: one that was started for this program, or one that `IDEM_TEST_POSTGRES_URL` names.
#[derive(Debug)]
pub struct PostgresServer {
    /// Without the database's name, and what came after it.
    address: (String, String),
    ours: Option<Ours>,
}

/// A server of our own.
#[derive(Debug)]
struct Ours {
    // Dropped first: nobody is to be left when the folder is removed.
    running: Option<Child>,
    watchdog: Watchdog,
    account: Account,
    port: u16,
    settings: Vec<String>,
}

impl PostgresServer {
    /// The server of this program's tests: started by the first who asks, ended with the process.
    ///
    /// # Panics
    ///
    /// When it cannot be started; says what to do.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<PostgresServer> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var("IDEM_TEST_POSTGRES_URL") {
            Ok(url) if !url.is_empty() => Self { address: without_database(&url), ours: None },
            _ => Self::start(&[]),
        })
    }

    /// Starts a server for one test, with settings such as `wal_level=minimal`.
    ///
    /// # Panics
    ///
    /// When it cannot be started; says what to do.
    pub fn start(settings: &[&str]) -> Self {
        let account = Account::for_server("postgres");
        let watchdog = Watchdog::with_folder();
        account.own(watchdog.folder());
        let made = account
            .command(&program("initdb"))
            .args(["--username", USER, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "-D"])
            .arg(watchdog.folder().join("data"))
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .expect("an initdb");
        assert!(made.status.success(), "initdb failed: {}", String::from_utf8_lossy(&made.stderr));
        let settings = settings.iter().map(|setting| (*setting).to_owned()).collect();
        let mut ours = Ours { running: None, watchdog, account, port: 0, settings };
        let mut attempts = 0;
        loop {
            ours.port = free_port();
            match ours.run() {
                Ok(()) => break,
                // Somebody else took the port meanwhile.
                Err(log) if log.contains("could not bind") && attempts < 10 => attempts += 1,
                Err(log) => panic!("PostgreSQL does not start: {log}"),
            }
        }
        Self {
            address: (format!("postgres://{USER}@127.0.0.1:{}", ours.port), String::new()),
            ours: Some(ours),
        }
    }

    /// The URL of a database on this server.
    pub fn url(&self, database: &str) -> String {
        let (before, after) = &self.address;
        format!("{before}/{database}{after}")
    }

    /// The port of a server that was started here.
    ///
    /// # Panics
    ///
    /// When it was not.
    pub fn port(&self) -> u16 {
        self.ours.as_ref().expect("a server of our own").port
    }

    /// Makes an empty database.
    ///
    /// # Panics
    ///
    /// When the server does not let us.
    pub async fn database(&self) -> Database {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("idem_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let admin = self.url("postgres");
        let mut connection = PgConnection::connect(&admin).await.expect("a server");
        let create = AssertSqlSafe(format!("CREATE DATABASE {name}"));
        connection.execute(sqlx::raw_sql(create)).await.expect("a new database");
        connection.close().await.expect("a close");
        Database { url: self.url(&name), name, admin: self.ours.is_none().then_some(admin) }
    }

    /// Stops the server and all its connections where they are: it accepts connections and answers none.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub fn pause(&mut self) {
        let pid = self.pid();
        signal("STOP", &[pid]);
        // It forks no more, so these are all.
        signal("STOP", &family(pid));
    }

    /// Lets a paused server go on.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub fn resume(&mut self) {
        signal("CONT", &family(self.pid()));
    }

    /// Kills the server and all its connections, as a power cut would.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub fn kill(&mut self) {
        let pid = self.pid();
        signal("STOP", &[pid]);
        let all = family(pid);
        signal("KILL", &all);
        let ours = self.ours.as_mut().expect("a server of our own");
        ours.watchdog.watch(None);
        ours.running.take().expect("a running server").wait().expect("an end");
        // A new server refuses the data while one of the old is there.
        wait_until_gone(&all);
    }

    /// Starts a killed server again, on the same data and port.
    ///
    /// # Panics
    ///
    /// When it runs, is not ours, or does not start.
    pub fn restart(&mut self) {
        let ours = self.ours.as_mut().expect("a server of our own");
        assert!(ours.running.is_none(), "the server runs");
        ours.run().expect("a server that starts again");
    }

    fn pid(&self) -> u32 {
        self.ours.as_ref().and_then(|ours| ours.running.as_ref()).expect("a running server of our own").id()
    }
}

impl Ours {
    fn run(&mut self) -> Result<(), String> {
        let mut command = self.account.command(&program("postgres"));
        command.arg("-D").arg(self.watchdog.folder().join("data"));
        command.args(["-p", &self.port.to_string()]);
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
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let mut server = command
            .env("LC_ALL", "C")
            .current_dir(self.watchdog.folder())
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a server's program");
        self.watchdog.watch(Some(server.id()));
        let log = Log::read(server.stderr.take().expect("its log"), READY);
        log.wait_until_ready().inspect_err(|_| {
            self.watchdog.watch(None);
            let _ = server.kill();
            let _ = server.wait();
        })?;
        self.running = Some(server);
        Ok(())
    }
}

/// A database of one test.
#[derive(Debug)]
pub struct Database {
    name: String,
    url: String,
    /// Where to have it dropped; a server of our own takes its databases with it.
    admin: Option<String>,
}

impl Database {
    /// Where it is.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All that a table holds, byte for byte, one value after the other.
    ///
    /// # Panics
    ///
    /// When it cannot be read.
    pub fn contents(&self, table: &str) -> Vec<u8> {
        let (url, copy) = (self.url.clone(), format!("COPY {table} TO STDOUT (FORMAT binary)"));
        apart(async move {
            let mut connection = PgConnection::connect(&url).await.ok()?;
            let parts = connection.copy_out_raw(&copy).await.ok()?;
            let parts: Vec<_> = parts.try_collect().await.ok()?;
            Some(parts.concat())
        })
        .expect("a table that can be read")
    }
}

/// Does something on a runtime of its own, since the test's cannot be waited for everywhere.
fn apart<T: Send + 'static>(work: impl Future<Output = Option<T>> + Send + 'static) -> Option<T> {
    let thread = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?.block_on(work)
    });
    thread.join().ok()?
}

impl Drop for Database {
    fn drop(&mut self) {
        let Some(admin) = self.admin.take() else { return };
        let drop = format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name);
        // Left behind it harms nobody.
        let _ = apart(async move {
            let mut connection = PgConnection::connect(&admin).await.ok()?;
            connection.execute(sqlx::raw_sql(AssertSqlSafe(drop))).await.ok()
        });
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

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a loopback interface");
    listener.local_addr().expect("an address").port()
}

/// Takes a URL apart at its database.
fn without_database(url: &str) -> (String, String) {
    let (address, options) = url.split_once('?').map_or((url, String::new()), |(a, o)| (a, format!("?{o}")));
    let authority = address.find("://").map_or(0, |at| at + 3);
    let end = address[authority..].find('/').map_or(address.len(), |at| authority + at);
    (address[..end].to_owned(), options)
}
