//! The ping: asks the store for something small by a connection of its own, and not through idem, so that a store that is
//! slow is told from an idem that waits.

use std::io;
use std::time::Duration;

use idem_testkit::{RedisConnection, Reply};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, Executor as _};
use sqlx::{MySqlConnection, PgConnection, SqliteConnection};
use tokio::runtime::Handle;
use tokio::time::timeout;

/// How long a store that nobody breaks may take.
const PATIENCE: Duration = Duration::from_secs(10);

type Anything = Box<dyn std::error::Error + Send + Sync>;

const CREATE: &str = "CREATE TABLE IF NOT EXISTS chaos_pings (at BIGINT NOT NULL)";
/// It waits for the disk, as every step does, and for the lock of nobody's row; on SQLite for the file's only lock.
const WRITE: &str = "INSERT INTO chaos_pings (at) VALUES (0)";

/// Who asks. Its thread waits for servers of Redis.
#[derive(Debug)]
pub struct Ping {
    store: String,
    connection: Option<Connection>,
}

/// Looks whether a store is there, before anything is broken.
///
/// # Errors
///
/// When it is not, within 10 seconds.
pub async fn look_for(store: &str) -> Result<(), Anything> {
    let Some(mut ping) = Ping::of(store) else { return Ok(()) };
    // What says nothing keeps a thread that is not needed.
    let handle = Handle::current();
    let asked = tokio::task::spawn_blocking(move || handle.block_on(ping.ask()));
    match timeout(PATIENCE, asked).await {
        Ok(asked) => asked?,
        Err(_) => Err(format!("no answer within {PATIENCE:?}").into()),
    }
}

#[derive(Debug)]
enum Connection {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
    MySql(MySqlConnection),
    /// The only server, or all of a cluster.
    Redis(Vec<RedisConnection>),
}

impl Ping {
    /// One for a store that a service was told of; `None` if it is in the process.
    pub fn of(store: &str) -> Option<Self> {
        (store != "memory:").then(|| Self { store: store.to_owned(), connection: None })
    }

    /// Asks, and waits until it was done.
    ///
    /// # Errors
    ///
    /// When the store is not there, or does not take it.
    pub async fn ask(&mut self) -> Result<(), Anything> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => Connection::open(&self.store).await?,
        };
        connection.ask().await?;
        // One that did not answer is not used again. Who is the primary is asked each time.
        if !self.store.starts_with("redis-sentinel:") {
            self.connection = Some(connection);
        }
        Ok(())
    }
}

impl Connection {
    async fn open(store: &str) -> Result<Self, Anything> {
        let (kind, place) = store.split_once(':').unwrap_or((store, ""));
        Ok(match kind {
            "sqlite" => {
                let mut connection =
                    SqliteConnectOptions::new().filename(place).create_if_missing(true).connect().await?;
                connection.execute(CREATE).await?;
                Self::Sqlite(connection)
            }
            "postgres" | "postgresql" => {
                let mut connection = PgConnection::connect(store).await?;
                connection.execute(CREATE).await?;
                Self::Postgres(connection)
            }
            "mysql" | "mariadb" => {
                let mut connection = MySqlConnection::connect(store).await?;
                connection.execute(CREATE).await?;
                Self::MySql(connection)
            }
            "redis-cluster" => {
                Self::Redis(place.split(',').map(RedisConnection::open).collect::<io::Result<_>>()?)
            }
            "redis-sentinel" => {
                let (name, sentinels) = place.split_once('@').ok_or("no name of a primary")?;
                Self::Redis(vec![RedisConnection::open(&primary(name, sentinels)?)?])
            }
            _ => Self::Redis(vec![RedisConnection::open(store)?]),
        })
    }

    async fn ask(&mut self) -> Result<(), Anything> {
        match self {
            Self::Sqlite(connection) => {
                connection.execute(WRITE).await?;
            }
            Self::Postgres(connection) => {
                connection.execute(WRITE).await?;
            }
            Self::MySql(connection) => {
                connection.execute(WRITE).await?;
            }
            Self::Redis(all) => {
                for connection in all {
                    connection.ask(&["PING"])?;
                }
            }
        }
        Ok(())
    }
}

/// The URL of the primary that a Sentinel names.
fn primary(name: &str, sentinels: &str) -> Result<String, Anything> {
    for sentinel in sentinels.split(',') {
        let named = RedisConnection::open(sentinel)
            .and_then(|mut sentinel| sentinel.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]));
        if let Ok(Reply::List(named)) = named
            && let [host, port] = &*named
        {
            return Ok(format!("redis://{}:{}", host.text(), port.text()));
        }
    }
    Err("no Sentinel names a primary".into())
}
