//! Redis servers, and what has its commands and its protocol: Valkey, and Sentinels.

mod cluster;
mod connection;
mod group;
mod history;
mod migration;
mod reply;
mod sentinels;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

pub use cluster::RedisCluster;
pub use connection::RedisConnection;
pub use history::History;
pub use migration::Migration;
pub use reply::Reply;
pub use sentinels::{RedisSentinels, Sentinel};

use crate::account::Account;
use crate::certificates::Certificates;
use crate::server::{Product, Server, free_port};

/// A server of Redis 7 or newer. `IDEM_TEST_REDIS_URL` names one that is used instead of a shared one of our own, and
/// `IDEM_TEST_REDIS_SERVER` the program of those of our own, such as `/opt/valkey/bin/valkey-server`.
///
/// Settings are lines of its configuration file, such as `appendonly yes`. Unless they say otherwise it keeps nothing on
/// disk, evicts nothing and wants no password. It has a socket, too, and takes `DEBUG`.
pub type RedisServer = Server<Redis>;

/// Redis, or Valkey.
#[derive(Debug, Clone, Copy)]
pub struct Redis;

/// The environment variable that names a server to use instead of a shared one of our own.
const URL: &str = "IDEM_TEST_REDIS_URL";
/// The environment variable that names the program.
const PROGRAM: &str = "IDEM_TEST_REDIS_SERVER";
/// The file that a server of our own rewrites when it is told whom to follow.
pub(crate) const CONFIGURATION: &str = "own.conf";
/// Where a server of our own listens besides its port.
const SOCKET: &str = "socket";

/// A server that speaks the protocol of Redis.
pub trait RedisProduct: Product {}

impl RedisProduct for Redis {}

impl Product for Redis {
    const NAME: &str = "Redis";
    const ACCOUNT: &str = "redis";
    const READY: &str = "Ready to accept connections";
    const PORT_TAKEN: &str = "Failed listening on port";

    fn make_data(account: Account, folder: &Path) {
        make_configuration(account, folder);
    }

    fn program(account: Account, folder: &Path, port: u16, settings: &[String]) -> Command {
        let mut command = program(account, folder, port);
        command.args(["--save", ""]).arg("--unixsocket").arg(folder.join(SOCKET));
        command.args(["--enable-debug-command", "local"]);
        add(&mut command, settings);
        command
    }

    fn address(port: u16, settings: &[String]) -> String {
        match setting(settings, "requirepass") {
            Some(password) => format!("redis://:{password}@127.0.0.1:{port}"),
            None => format!("redis://127.0.0.1:{port}"),
        }
    }
}

impl<P: RedisProduct> Server<P> {
    /// Opens a connection.
    ///
    /// # Errors
    ///
    /// When there is no server, it does not answer within 5 seconds, or it wants another password.
    pub fn connect(&self) -> io::Result<RedisConnection> {
        RedisConnection::open(self.address())
    }

    /// Executes one command on a connection of its own, and gives the reply, be it an error.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn ask<A: AsRef<[u8]>>(&self, command: &[A]) -> io::Result<Reply> {
        self.connect()?.ask(command)
    }

    /// Executes one command on a connection of its own. Its thread waits.
    ///
    /// # Panics
    ///
    /// When the server cannot be reached, or answers with an error.
    pub fn command<A: AsRef<[u8]>>(&self, command: &[A]) -> Reply {
        self.connect().expect("a connection").command(command)
    }

    /// What `INFO` says in a section, by the names of its lines.
    ///
    /// # Panics
    ///
    /// As [`command`](Self::command).
    pub fn info(&self, section: &str) -> BTreeMap<String, String> {
        self.command(&["INFO", section]).fields()
    }

    /// How many times each command was executed since the start or [`forget_commandstats`](Self::forget_commandstats), by
    /// its name in small letters, such as `evalsha`. What scripts call is counted, too; `info` itself is left out.
    ///
    /// # Panics
    ///
    /// As [`command`](Self::command).
    pub fn commandstats(&self) -> BTreeMap<String, u64> {
        let lines = self.info("commandstats").into_iter();
        let counts = lines.filter_map(|(name, line)| {
            let name = name.strip_prefix("cmdstat_")?.to_owned();
            let calls = line.split(',').find_map(|field| field.strip_prefix("calls="))?.parse().ok()?;
            (name != "info").then_some((name, calls))
        });
        counts.collect()
    }

    /// Begins to count commands anew.
    ///
    /// # Panics
    ///
    /// As [`command`](Self::command).
    pub fn forget_commandstats(&self) {
        self.command(&["CONFIG", "RESETSTAT"]);
    }

    /// Starts a server that listens on a second port, too, for TLS, and asks its clients for no certificates.
    ///
    /// # Panics
    ///
    /// When it cannot be started; says what to do.
    pub fn start_with_tls(certificates: &Certificates, settings: &[&str]) -> Self {
        Self::start_with(|| {
            let tls = [
                format!("tls-port {}", free_port()),
                format!("tls-cert-file {}", certificates.server().display()),
                format!("tls-key-file {}", certificates.key().display()),
                format!("tls-ca-cert-file {}", certificates.authority().display()),
                "tls-auth-clients no".to_owned(),
            ];
            tls.into_iter().chain(settings.iter().map(|setting| (*setting).to_owned())).collect()
        })
    }

    /// Where a server that was started with TLS is to be reached by it; the certificate is for this host's name.
    ///
    /// # Panics
    ///
    /// When it was started without.
    pub fn tls_url(&self) -> String {
        let port = setting(self.settings(), "tls-port").expect("a server that was started with TLS");
        let (_, place) = self.address().split_once("://").expect("a URL");
        let credentials = place.rsplit_once('@').map_or(String::new(), |(before, _)| format!("{before}@"));
        format!("rediss://{credentials}localhost:{port}")
    }

    /// Ends the server in good order: what it is to keep is on disk then.
    ///
    /// # Panics
    ///
    /// When it does not run, or is not ours.
    pub fn stop(&mut self) {
        self.terminate();
    }
}

impl RedisServer {
    /// The server of this program's tests: started by the first who asks, ended with the process.
    ///
    /// # Panics
    ///
    /// When it cannot be started; says what to do.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<RedisServer> = OnceLock::new();
        SHARED.get_or_init(|| match std::env::var(URL) {
            Ok(url) if !url.is_empty() => Self::at(url),
            _ => Self::start(&[]),
        })
    }

    /// Where it is, with the password if there is one.
    pub fn url(&self) -> &str {
        self.address()
    }

    /// Where a server of our own listens besides its port.
    ///
    /// # Panics
    ///
    /// When it is not ours.
    pub fn socket(&self) -> PathBuf {
        self.folder().join(SOCKET)
    }

    /// All keys that begin with something, byte for byte in order, and what they hold: strings, or hashes.
    ///
    /// # Panics
    ///
    /// As [`command`](Self::command).
    pub fn contents(&self, prefix: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut connection = self.connect().expect("a connection");
        let mut found = BTreeMap::new();
        let mut cursor = b"0".to_vec();
        loop {
            let pattern = format!("{prefix}*");
            let page =
                connection.command(&[b"SCAN", &*cursor, b"MATCH", pattern.as_bytes(), b"COUNT", b"1000"]);
            let [next, keys] = page.list() else { panic!("no page of keys: {page:?}") };
            for key in keys.list().iter().map(Reply::bytes) {
                let read: &[u8] = match connection.command(&[b"TYPE", key]).text() {
                    "string" => b"GET",
                    "hash" => b"HGETALL",
                    // It expired meanwhile.
                    "none" => continue,
                    other => panic!("no way to read a {other}"),
                };
                found.insert(key.to_vec(), connection.command(&[read, key]).all_bytes());
            }
            cursor = next.bytes().to_vec();
            if cursor == b"0" {
                return found.into_iter().collect();
            }
        }
    }
}

/// A beginning for the keys of one test, which no other test on any server has.
pub fn redis_namespace() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("idem_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Makes the file that a server rewrites.
pub(crate) fn make_configuration(account: Account, folder: &Path) {
    let file = folder.join(CONFIGURATION);
    File::create(&file).expect("a file");
    account.own(&file);
}

/// What runs a server of either kind on its port. What comes as an argument counts for more than what it has written.
pub(crate) fn program(account: Account, folder: &Path, port: u16) -> Command {
    let mut command = account.command(executable());
    command.arg(folder.join(CONFIGURATION));
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string()]);
    command
}

/// Adds settings as arguments.
pub(crate) fn add(command: &mut Command, settings: &[String]) {
    for setting in settings {
        let mut words = setting.split_whitespace();
        command.arg(format!("--{}", words.next().expect("a setting with a name"))).args(words);
    }
}

fn executable() -> &'static Path {
    static EXECUTABLE: OnceLock<PathBuf> = OnceLock::new();
    EXECUTABLE.get_or_init(|| {
        if let Some(named) = std::env::var_os(PROGRAM).filter(|named| !named.is_empty()) {
            return named.into();
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut programs = std::env::split_paths(&path).map(|folder| folder.join("redis-server"));
        let found = programs.find(|program| program.is_file());
        found.unwrap_or_else(|| panic!("Redis' server program: run `scripts/setup`, or set {PROGRAM}"))
    })
}

/// The last value of a setting.
fn setting<'a>(settings: &'a [String], name: &str) -> Option<&'a str> {
    settings.iter().rev().find_map(|line| {
        let (found, value) = line.split_once(' ')?;
        (found == name).then_some(value.trim())
    })
}
