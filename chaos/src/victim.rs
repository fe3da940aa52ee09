//! The victim: the store that is broken, with its servers and the way to it.

use std::error::Error;
use std::time::Duration;

use idem_testkit::{
    Database, MariaDb, MariaDbServer, Postgres, PostgresServer, RedisCluster, RedisSentinels, RedisServer,
    Server, SqlProduct,
};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection};
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::dice::Dice;
use crate::nemesis::Kind;
use crate::ping::look_for;
use crate::way::{Mood, Way};

type Anything = Box<dyn Error + Send + Sync>;

/// What a single server of Redis keeps through a kill: everything that it has acknowledged.
const KEEP_ALL: [&str; 2] = ["appendonly yes", "appendfsync always"];

/// How URLs of servers begin that others have started. The way to them is broken, so that they must not hide what is said.
const SCHEMES: [&str; 5] = ["postgres://", "postgresql://", "mysql://", "mariadb://", "redis://"];

/// A store, in good order until it is harmed.
#[derive(Debug)]
pub struct Victim {
    name: String,
    url: String,
    servers: Servers,
    way: Option<Way>,
    runtime: Handle,
}

#[derive(Debug)]
enum Servers {
    /// It is in the service, or somewhere else.
    None,
    Sqlite(SqliteFile),
    Postgres(PostgresServer, #[expect(dead_code, reason = "lives as long as its server")] Database),
    MariaDb(MariaDbServer, #[expect(dead_code, reason = "lives as long as its server")] Database),
    Redis(RedisServer),
    Cluster(RedisCluster, Option<usize>),
    Sentinels(RedisSentinels, Option<usize>),
}

#[derive(Debug)]
struct SqliteFile {
    #[expect(dead_code, reason = "the folder is there as long as this")]
    folder: TempDir,
    options: SqliteConnectOptions,
    locked: Option<SqliteConnection>,
}

impl Victim {
    /// Starts the servers of a store by its name, or takes the URL of one that is there.
    ///
    /// # Errors
    ///
    /// When there is no such store, or it cannot be reached.
    ///
    /// # Panics
    ///
    /// When a server cannot be started; says what to do.
    pub async fn start(store: &str) -> Result<Self, Anything> {
        let runtime = Handle::current();
        let new = |url: String, servers, way| Self { name: store.to_owned(), url, servers, way, runtime };
        Ok(match store {
            "memory" => new("memory:".to_owned(), Servers::None, None),
            "sqlite" => {
                let folder = tempfile::Builder::new().prefix("idem-chaos-").tempdir()?;
                let path = folder.path().join("store.db");
                let url = format!("sqlite:{}", path.display());
                let options = SqliteConnectOptions::new().filename(path);
                new(url, Servers::Sqlite(SqliteFile { folder, options, locked: None }), None)
            }
            "postgres" => {
                let server = started::<Postgres>().await;
                let database = server.database().await;
                let (url, way) = through_a_way(database.url(), "sslmode=disable").await?;
                new(url, Servers::Postgres(server, database), Some(way))
            }
            "mysql" => {
                let server = started::<MariaDb>().await;
                let database = server.database().await;
                let (url, way) = through_a_way(database.url(), "ssl-mode=DISABLED").await?;
                new(url, Servers::MariaDb(server, database), Some(way))
            }
            "redis" => {
                let server = tokio::task::spawn_blocking(|| RedisServer::start(&KEEP_ALL)).await?;
                let (url, way) = through_a_way(server.url(), "").await?;
                new(url, Servers::Redis(server), Some(way))
            }
            "redis-cluster" => {
                let cluster = tokio::task::spawn_blocking(|| RedisCluster::start(&KEEP_ALL)).await?;
                let url = format!("redis-cluster:{}", cluster.urls().join(","));
                new(url, Servers::Cluster(cluster, None), None)
            }
            "redis-sentinel" => {
                let all = tokio::task::spawn_blocking(|| RedisSentinels::start(&KEEP_ALL)).await?;
                let url = format!("redis-sentinel:{}@{}", all.name(), all.urls().join(","));
                new(url, Servers::Sentinels(all, None), None)
            }
            given if SCHEMES.iter().any(|scheme| given.starts_with(scheme)) => {
                look_for(given).await.map_err(|error| format!("the store cannot be reached: {error}"))?;
                let (url, way) = through_a_way(given, "").await?;
                new(url, Servers::None, Some(way))
            }
            given if given.starts_with("sqlite:") => {
                let path = given["sqlite:".len()..].trim_start_matches("//");
                let there = look_for(&format!("sqlite:{path}")).await;
                there.map_err(|error| format!("the file `{path}` cannot be used: {error}"))?;
                let options = SqliteConnectOptions::new().filename(path);
                let folder = tempfile::Builder::new().prefix("idem-chaos-").tempdir()?;
                let file = SqliteFile { folder, options, locked: None };
                new(format!("sqlite:{path}"), Servers::Sqlite(file), None)
            }
            // It may hold a password.
            other if other.contains("://") => {
                return Err(format!("a URL here begins with {} or sqlite:", SCHEMES.join(", ")).into());
            }
            other => return Err(format!("there is no store `{other}`").into()),
        })
    }

    /// The name that it was started by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the service finds it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// What can be done to it.
    pub fn kinds(&self) -> Vec<Kind> {
        let of_way: &[Kind] =
            if self.way.is_some() { &[Kind::Cut, Kind::Hold, Kind::Slow, Kind::Lose] } else { &[] };
        let of_servers: &[Kind] = match &self.servers {
            Servers::None => &[],
            Servers::Sqlite(_) => &[Kind::Lock],
            Servers::Postgres(..) | Servers::MariaDb(..) => &[Kind::Kill, Kind::Pause],
            Servers::Redis(_) => &[Kind::Kill, Kind::Pause, Kind::Restart],
            Servers::Cluster(..) | Servers::Sentinels(..) => &[Kind::Kill, Kind::Pause, Kind::Failover],
        };
        [of_servers, of_way].concat()
    }

    /// Whether what is done to it can make it forget what it has acknowledged: replication is asynchronous.
    pub fn may_forget(&self) -> bool {
        matches!(self.servers, Servers::Cluster(..) | Servers::Sentinels(..))
    }

    /// Does it. Its thread waits.
    ///
    /// # Panics
    ///
    /// When it cannot be done, which is no finding about idem.
    pub fn harm(&mut self, kind: Kind, pick: u64) {
        if let Some(way) = &self.way
            && let Some(mood) = mood(kind, pick)
        {
            return way.set(mood);
        }
        match (&mut self.servers, kind) {
            (Servers::Sqlite(file), _) => self.runtime.block_on(file.lock()),
            (Servers::Postgres(server, _), Kind::Kill) => server.kill(),
            (Servers::Postgres(server, _), _) => server.pause(),
            (Servers::MariaDb(server, _), Kind::Kill) => server.kill(),
            (Servers::MariaDb(server, _), _) => server.pause(),
            (Servers::Redis(server), Kind::Kill) => server.kill(),
            (Servers::Redis(server), Kind::Restart) => server.stop(),
            (Servers::Redis(server), _) => server.pause(),
            (Servers::Cluster(cluster, away), kind) => {
                let primaries = cluster.primaries();
                let primary = primaries[(pick % primaries.len() as u64) as usize];
                match kind {
                    Kind::Kill => cluster.kill(primary),
                    Kind::Pause => cluster.pause(primary),
                    _ => {
                        cluster.fail_over(primary);
                        return;
                    }
                }
                *away = Some(primary);
            }
            (Servers::Sentinels(all, away), kind) => {
                let primary = all.primary();
                match kind {
                    Kind::Kill => all.kill(primary),
                    Kind::Pause => all.pause(primary),
                    _ => {
                        all.fail_over();
                        return;
                    }
                }
                *away = Some(primary);
            }
            (Servers::None, _) => {}
        }
    }

    /// Undoes it, and waits until the servers are in order.
    ///
    /// # Panics
    ///
    /// When they are not within a minute.
    pub fn heal(&mut self, kind: Kind) {
        if let Some(way) = &self.way
            && mood(kind, 0).is_some()
        {
            return way.set(Mood::Fair);
        }
        match (&mut self.servers, kind) {
            (Servers::Sqlite(file), _) => self.runtime.block_on(file.unlock()),
            (Servers::Postgres(server, _), Kind::Kill) => server.restart(),
            (Servers::Postgres(server, _), _) => server.resume(),
            (Servers::MariaDb(server, _), Kind::Kill) => server.restart(),
            (Servers::MariaDb(server, _), _) => server.resume(),
            (Servers::Redis(server), Kind::Kill | Kind::Restart) => server.restart(),
            (Servers::Redis(server), _) => server.resume(),
            (Servers::Cluster(cluster, away), kind) => {
                match (away.take(), kind) {
                    (Some(node), Kind::Kill) => cluster.restart(node),
                    (Some(node), _) => cluster.resume(node),
                    (None, _) => {}
                }
                cluster.settle();
            }
            (Servers::Sentinels(all, away), kind) => {
                match (away.take(), kind) {
                    (Some(server), Kind::Kill) => all.restart(server),
                    (Some(server), _) => all.resume(server),
                    (None, _) => {}
                }
                all.settle();
            }
            (Servers::None, _) => {}
        }
    }
}

/// What a kind of fault makes of a way, if it is one of ways.
fn mood(kind: Kind, pick: u64) -> Option<Mood> {
    match kind {
        Kind::Cut => Some(Mood::Cut),
        Kind::Hold => Some(Mood::Hold),
        Kind::Slow => Some(Mood::Slow(Dice::new(pick, 0).between(20, 300))),
        Kind::Lose => Some(Mood::Lose(Dice::new(pick, 0).below(12) + 4)),
        _ => None,
    }
}

impl SqliteFile {
    async fn lock(&mut self) {
        // Who writes just now is waited for.
        let options = self.options.clone().busy_timeout(Duration::from_secs(30));
        let mut connection = options.connect().await.expect("an SQLite file");
        sqlx::query("BEGIN IMMEDIATE").execute(&mut connection).await.expect("the lock of an SQLite file");
        self.locked = Some(connection);
    }

    async fn unlock(&mut self) {
        if let Some(connection) = self.locked.take() {
            let _ = connection.close().await;
        }
    }
}

async fn started<P: SqlProduct>() -> Server<P>
where
    Server<P>: Send,
{
    tokio::task::spawn_blocking(|| Server::start(&[])).await.expect("a server that starts")
}

/// Opens a way to the server of a URL, and gives the URL by that way. What is said there is not hidden by TLS.
async fn through_a_way(url: &str, option: &str) -> Result<(String, Way), Anything> {
    let (scheme, rest) = url.split_once("://").ok_or("a store's URL has a scheme")?;
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (credentials, place) = match authority.rsplit_once('@') {
        Some((credentials, place)) => (format!("{credentials}@"), place),
        None => (String::new(), authority),
    };
    let port = match scheme {
        "postgres" | "postgresql" => ":5432",
        "mysql" | "mariadb" => ":3306",
        _ => ":6379",
    };
    let port = if place.contains(':') { "" } else { port };
    let way = Way::to(format!("{place}{port}")).await?;
    let mark = match option {
        "" => "",
        _ if path.contains('?') => "&",
        _ => "?",
    };
    Ok((format!("{scheme}://{credentials}127.0.0.1:{}{path}{mark}{option}", way.port()), way))
}
