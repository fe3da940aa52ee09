//! The stores that the suite runs over. A new one is a variant here, and a line in `main.rs`.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use idem::{MemoryStore, MySqlStore, PostgresStore, RedisStore, SqliteStore, Store};
use idem_redis::RedisBuilder;
use idem_testkit::{
    Database, MariaDbServer, PostgresServer, RedisCluster, RedisSentinels, RedisServer, redis_namespace,
};
use tempfile::TempDir;
use tokio::sync::OnceCell;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Memory,
    Sqlite,
    Postgres,
    MySql,
    Redis,
    RedisCluster,
    RedisSentinels,
}

/// A store of its own for one test, and what has to live as long as it.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    home: Option<Arc<Home>>,
}

/// Where a store keeps its records.
enum Home {
    Folder(TempDir),
    Table(&'static Database, String),
    /// A prefix, and the servers whose keys may begin with it.
    Keys(String, Vec<&'static RedisServer>),
}

impl Kind {
    /// Whether what has expired goes without a sweep.
    pub(crate) fn sweeps_itself(self) -> bool {
        matches!(self, Self::Redis | Self::RedisCluster | Self::RedisSentinels)
    }

    pub(crate) async fn open(self) -> Opened {
        match self {
            Self::Memory => Opened::without_home(MemoryStore::new()),
            Self::Sqlite => {
                let home = tempfile::tempdir().unwrap();
                let store = SqliteStore::open(home.path().join("idem.db")).await.unwrap();
                Opened { store: Arc::new(store), home: Some(Arc::new(Home::Folder(home))) }
            }
            Self::Postgres => {
                static DATABASE: OnceCell<Database> = OnceCell::const_new();
                let database = DATABASE.get_or_init(|| PostgresServer::shared().database()).await;
                let table = new_table();
                let store = PostgresStore::builder().url(database.url()).table(&table).open().await.unwrap();
                Opened { store: Arc::new(store), home: Some(Arc::new(Home::Table(database, table))) }
            }
            Self::MySql => {
                static DATABASE: OnceCell<Database> = OnceCell::const_new();
                let database = DATABASE.get_or_init(|| MariaDbServer::shared().database()).await;
                let table = new_table();
                let store = MySqlStore::builder().url(database.url()).table(&table).open().await.unwrap();
                Opened { store: Arc::new(store), home: Some(Arc::new(Home::Table(database, table))) }
            }
            Self::Redis => {
                let server = RedisServer::shared();
                Opened::in_redis(RedisStore::builder().url(server.url()), vec![server]).await
            }
            Self::RedisCluster => {
                let cluster = RedisCluster::shared();
                let primaries = cluster.primaries().into_iter().map(|node| cluster.node(node)).collect();
                Opened::in_redis(RedisStore::builder().cluster(cluster.urls()), primaries).await
            }
            Self::RedisSentinels => {
                let all = RedisSentinels::shared();
                let primary = vec![all.server(all.primary())];
                Opened::in_redis(RedisStore::builder().sentinel(all.name(), all.urls()), primary).await
            }
        }
    }
}

/// A table of a test's own in the database of all, since it is made faster than a database.
fn new_table() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("records_{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

impl Opened {
    pub(crate) fn without_home(store: impl Store) -> Self {
        Self { store: Arc::new(store), home: None }
    }

    async fn in_redis(builder: RedisBuilder, servers: Vec<&'static RedisServer>) -> Self {
        let prefix = redis_namespace();
        let store = builder.prefix(&prefix).open().await.unwrap();
        Self { store: Arc::new(store), home: Some(Arc::new(Home::Keys(prefix, servers))) }
    }

    /// Everything that the store has written down outside this process.
    pub(crate) fn written(&self) -> Vec<u8> {
        match self.home.as_deref() {
            None => Vec::new(),
            Some(Home::Folder(folder)) => {
                let files = std::fs::read_dir(folder.path()).unwrap();
                files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
            }
            Some(Home::Table(database, table)) => database.contents(table),
            Some(Home::Keys(prefix, servers)) => {
                let held = servers.iter().flat_map(|server| server.contents(prefix));
                held.flat_map(|(key, value)| [key, value].concat()).collect()
            }
        }
    }
}
