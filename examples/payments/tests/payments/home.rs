//! Where a service keeps its things: in memory, in a file of its own, or in a database of its own.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use idem_testkit::{
    Certificates, Database, MariaDbServer, PostgresServer, Redis, RedisCluster, RedisSentinels, RedisServer,
};
use tempfile::TempDir;

/// A store, empty at first; as long as this lives, services may be started on it again.
pub struct Home {
    pub store: String,
    /// Who vouches for the store, in a file.
    pub authority: Option<PathBuf>,
    directory: TempDir,
    /// Dropped with the home.
    _database: Option<Database>,
    _tls: Option<(RedisServer, Certificates)>,
}

impl Home {
    pub async fn memory() -> Self {
        Self::new(|_| "memory:".into())
    }

    pub async fn sqlite() -> Self {
        Self::new(|directory| format!("sqlite:{}", directory.path().join("payments.db").display()))
    }

    pub async fn postgres() -> Self {
        let server = tokio::task::spawn_blocking(PostgresServer::shared).await.unwrap();
        Self::in_database(server.database().await)
    }

    pub async fn mysql() -> Self {
        let server = tokio::task::spawn_blocking(MariaDbServer::shared).await.unwrap();
        Self::in_database(server.database().await)
    }

    /// A server has numbered databases, enough for all tests of this program.
    pub async fn redis() -> Self {
        static SERVER: OnceLock<RedisServer> = OnceLock::new();
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let start = || SERVER.get_or_init(|| RedisServer::start(&["databases 1000"]));
        let server = tokio::task::spawn_blocking(start).await.unwrap();
        Self::new(|_| format!("{}/{}", server.url(), NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// One for all tests of this program, and so is the cluster.
    pub async fn sentinels() -> Self {
        let all = tokio::task::spawn_blocking(RedisSentinels::shared).await.unwrap();
        Self::new(|_| format!("redis+sentinel://{}/{}/0", hosts(&all.urls()), all.name()))
    }

    pub async fn cluster() -> Self {
        let cluster = tokio::task::spawn_blocking(RedisCluster::shared).await.unwrap();
        Self::new(|_| format!("redis+cluster://{}", hosts(&cluster.urls())))
    }

    pub async fn tls() -> Self {
        let start = || {
            let certificates = Certificates::for_a::<Redis>();
            (RedisServer::start_with_tls(&certificates, &["requirepass s3cret"]), certificates)
        };
        let tls = tokio::task::spawn_blocking(start).await.unwrap();
        let home = Self::new(|_| tls.0.tls_url());
        Self { authority: Some(tls.1.authority()), _tls: Some(tls), ..home }
    }

    fn new(store: impl FnOnce(&TempDir) -> String) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { store: store(&directory), authority: None, directory, _database: None, _tls: None }
    }

    fn in_database(database: Database) -> Self {
        let home = Self::new(|_| database.url().to_owned());
        Self { _database: Some(database), ..home }
    }

    /// The files that SQLite keeps beside an open database.
    pub fn files_of_an_open_database(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.directory.path()).unwrap();
        let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.contains(".db-")).collect()
    }

    /// A file for what a service logs.
    pub fn log(&self) -> std::path::PathBuf {
        self.directory.path().join(format!("{}.log", fresh_key()))
    }
}

/// What is in URLs, one after the other.
fn hosts(urls: &[String]) -> String {
    let hosts: Vec<_> = urls.iter().map(|url| url.split_once("://").unwrap().1).collect();
    hosts.join(",")
}

/// A key that was never used.
pub fn fresh_key() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("key-{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Makes each test one on every store.
macro_rules! on_each_store {
    ($($tests:tt)*) => {
        $crate::home::on_these_stores! { [memory sqlite postgres mysql redis] { $($tests)* } }
    };
}

/// Makes each test one on every store that outlives a service and that several services can share.
macro_rules! on_each_shared_store {
    ($($tests:tt)*) => {
        mod shared {
            use super::*;
            $crate::home::on_these_stores! { [sqlite postgres mysql redis] { $($tests)* } }
        }
    };
}

/// Makes each test one on every store that has transactions.
macro_rules! on_each_sql_store {
    ($($tests:tt)*) => {
        mod sql {
            use super::*;
            $crate::home::on_these_stores! { [sqlite postgres mysql] { $($tests)* } }
        }
    };
}

macro_rules! on_these_stores {
    ([$($store:ident)*] $tests:tt) => {
        $($crate::home::on_this_store! { $store $tests })*
    };
}

macro_rules! on_this_store {
    ($store:ident { $(async fn $name:ident($home:ident) $body:block)* }) => {
        mod $store {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread")]
                async fn $name() {
                    let $home = Home::$store().await;
                    $body
                }
            )*
        }
    };
}
pub(crate) use {on_each_shared_store, on_each_sql_store, on_each_store, on_these_stores, on_this_store};
