//! The way to the ledger's Redis: one server, the primary that Sentinels know, or a cluster; named as idem's store names them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::{SentinelClient, SentinelNodeConnectionInfo, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, IntoConnectionInfo as _, Pipeline, RedisError, RedisFuture,
    RedisResult, TlsMode, Value,
};
use tokio::sync::Mutex;

use super::LedgerError;

/// A server that does not answer is to be told while the client still listens.
const PATIENCE: Duration = Duration::from_secs(5);

/// One connection for everybody, made anew when it breaks. It repeats nothing: a charge is not added twice by it.
#[derive(Clone)]
pub enum Way {
    Server(ConnectionManager),
    Watched(Arc<Watched>),
    Cluster(ClusterConnection),
}

/// The primary that Sentinels know, and the connection to it if there is one.
pub struct Watched {
    sentinels: Mutex<SentinelClient>,
    current: Mutex<Option<MultiplexedConnection>>,
}

/// The clients have passwords.
impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Way")
    }
}

impl Way {
    pub async fn open(url: &str) -> Result<Self, LedgerError> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let Some((scheme, kind @ ("sentinel" | "cluster"))) = scheme.split_once('+') else {
            let config = ConnectionManagerConfig::new()
                .set_connection_timeout(Some(PATIENCE))
                .set_response_timeout(Some(PATIENCE))
                .set_number_of_retries(1);
            let manager = Client::open(url)?.get_connection_manager_with_config(config).await?;
            return Ok(Self::Server(manager));
        };
        let (place, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, hosts) = match place.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), place),
        };
        if kind == "cluster" {
            let nodes = hosts.split(',').map(|host| format!("{scheme}://{user}{host}"));
            let cluster = ClusterClientBuilder::new(nodes).response_timeout(PATIENCE).build()?;
            return Ok(Self::Cluster(cluster.get_async_connection().await?));
        }
        let (name, database) = path.split_once('/').unwrap_or((path, ""));
        let primary = format!("{scheme}://{user}primary/{database}").into_connection_info()?;
        let mut how =
            SentinelNodeConnectionInfo::default().set_redis_connection_info(primary.redis_settings().clone());
        if matches!(scheme, "rediss" | "valkeys") {
            how = how.set_tls_mode(TlsMode::Secure);
        }
        let sentinels = hosts.split(',').map(|host| match host.rsplit_once(':') {
            Some((_, port)) if !port.ends_with(']') => format!("{scheme}://{host}"),
            _ => format!("{scheme}://{host}:26379"),
        });
        let sentinels =
            SentinelClient::build(sentinels.collect(), name, Some(how), SentinelServerType::Master)?;
        let watched = Watched { sentinels: Mutex::new(sentinels), current: Mutex::default() };
        watched.connection().await?;
        Ok(Self::Watched(Arc::new(watched)))
    }
}

impl Watched {
    async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        let mut current = self.current.lock().await;
        if let Some(found) = &*current {
            return Ok(found.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let made = self.sentinels.lock().await.get_async_connection_with_config(&config).await?;
        Ok(current.insert(made).clone())
    }

    /// Asks the Sentinels anew next time, if another may be the primary.
    async fn told<T>(&self, reply: RedisResult<T>) -> RedisResult<T> {
        let is_over = |error: &RedisError| {
            error.is_io_error() || matches!(error.code(), Some("READONLY" | "EXECABORT"))
        };
        if reply.as_ref().is_err_and(is_over) {
            *self.current.lock().await = None;
        }
        reply
    }
}

impl ConnectionLike for Way {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::Server(server) => server.req_packed_command(command),
            Self::Cluster(cluster) => cluster.req_packed_command(command),
            Self::Watched(watched) => Box::pin(async move {
                let mut connection = watched.connection().await?;
                let reply = connection.req_packed_command(command).await;
                watched.told(reply.and_then(Value::extract_error)).await
            }),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::Server(server) => server.req_packed_commands(pipeline, offset, count),
            Self::Cluster(cluster) => cluster.req_packed_commands(pipeline, offset, count),
            Self::Watched(watched) => Box::pin(async move {
                let mut connection = watched.connection().await?;
                let replies = connection.req_packed_commands(pipeline, offset, count).await;
                let replies = watched.told(replies).await?;
                for reply in &replies {
                    watched.told(reply.clone().extract_error()).await?;
                }
                Ok(replies)
            }),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::Server(server) => server.get_db(),
            Self::Watched(_) | Self::Cluster(_) => 0,
        }
    }
}
