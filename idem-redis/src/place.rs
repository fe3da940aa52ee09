//! Places: where the records are, and how a connection is made to there.

use std::fmt;
use std::io;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::aio::{ConnectionLike as _, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{Route, SingleNodeRoutingInfo, SlotAddr};
use redis::{AsyncConnectionConfig, Client, Cmd, RedisError, RedisResult, ServerErrorKind, Value};

use crate::fault::{Fault, io_kind, unavailable};
use crate::replicas::Wait;
use crate::sentinel::Sentinel;

/// Where the records are.
pub(crate) enum Place {
    Server(Client),
    Sentinel(Sentinel),
    Cluster { client: Box<ClusterClient>, nodes: Vec<Client> },
}

/// The clients have passwords.
impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Server(_) => "Server",
            Self::Sentinel(_) => "Sentinel",
            Self::Cluster { .. } => "Cluster",
        })
    }
}

/// A connection that many commands may use at once. Clones share it.
#[derive(Clone)]
pub(crate) enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Place {
    /// Makes a connection.
    pub(crate) async fn connect(&self, limit: Duration) -> Result<Connection, Fault> {
        match self {
            Self::Server(client) => Ok(Connection::One(connect(client, limit).await?)),
            Self::Sentinel(sentinel) => Ok(Connection::One(sentinel.connect(limit).await?)),
            Self::Cluster { client, .. } => {
                // Most steps connect to nothing, and this future is large.
                Ok(Connection::Cluster(Box::pin(client.get_async_connection()).await.map_err(Fault::of)?))
            }
        }
    }

    /// A server that tells what is published.
    pub(crate) async fn listening(&self, limit: Duration) -> Result<Client, Fault> {
        match self {
            Self::Server(client) => Ok(client.clone()),
            Self::Sentinel(sentinel) => sentinel.primary(limit).await,
            Self::Cluster { nodes, .. } => {
                // Each node is told by all others; one that hangs is not waited for.
                let mut tried: FuturesUnordered<_> =
                    nodes.iter().map(|node| async move { (node, connect(node, limit).await) }).collect();
                while let Some((node, tried)) = tried.next().await {
                    if tried.is_ok() {
                        return Ok(node.clone());
                    }
                }
                Err(Fault::Unreachable(unavailable("no node of the cluster can be reached")))
            }
        }
    }

    /// Whether Sentinels watch over the server.
    pub(crate) fn is_watched(&self) -> bool {
        matches!(self, Self::Sentinel(_))
    }

    /// Whether another server takes over if the one that has the records fails.
    pub(crate) fn fails_over(&self) -> bool {
        !matches!(self, Self::Server(_))
    }
}

/// Makes a connection to a server.
pub(crate) async fn connect(client: &Client, limit: Duration) -> Result<MultiplexedConnection, Fault> {
    // Replies are waited for by the line, which knows what to do if they do not come.
    let config = AsyncConnectionConfig::new().set_connection_timeout(Some(limit)).set_response_timeout(None);
    Box::pin(client.get_multiplexed_async_connection_with_config(&config)).await.map_err(Fault::of)
}

impl Connection {
    /// Whether it ends with its server. One to a cluster finds another by itself.
    pub(crate) fn is_of_one_server(&self) -> bool {
        matches!(self, Self::One(_))
    }

    /// Whether what drives it has ended.
    pub(crate) fn is_lost(error: &RedisError) -> bool {
        io_kind(error) == Some(io::ErrorKind::BrokenPipe)
    }

    /// Sends a command and returns what is replied, errors included.
    pub(crate) async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match self {
            Self::One(connection) => connection.send_packed_command(command).await?.extract_error(),
            Self::Cluster(connection) => connection.req_packed_command(command).await?.extract_error(),
        }
    }

    /// Sends a script for a key, and, if it writes, waits for replicas; also tells how many of them have it then.
    ///
    /// A connection to a cluster may be another at any time, and a new one has written nothing. There both go together,
    /// so that a script that does not write waits, too, if replicas lag behind.
    pub(crate) async fn send_and_wait(
        &mut self,
        script: &Cmd,
        key: &[u8],
        wait: Wait,
    ) -> RedisResult<(Value, Option<i64>)> {
        let (reply, told) = match self {
            Self::One(connection) => {
                let reply = connection.send_packed_command(script).await?.extract_error()?;
                if !Wait::concerns(&reply) {
                    return Ok((reply, None));
                }
                (reply, connection.send_packed_command(&wait.command()).await?)
            }
            Self::Cluster(connection) => {
                let mut both = redis::Pipeline::with_capacity(2);
                both.add_command(script.clone()).add_command(wait.command());
                let primary = SingleNodeRoutingInfo::SpecificNode(Route::with_key(key, SlotAddr::Master));
                let mut replies = connection.route_pipeline(both, 0, 2, primary).await?.into_iter();
                let (Some(reply), Some(told)) = (replies.next(), replies.next()) else {
                    return Ok((Value::Nil, None));
                };
                if let Value::ServerError(error) = &reply
                    && matches!(error.kind(), Some(ServerErrorKind::Moved | ServerErrorKind::Ask))
                {
                    // Where the slot is now is learnt from commands that go alone.
                    let mut look = redis::cmd("GET");
                    connection.req_packed_command(look.arg(key)).await?.extract_error()?;
                }
                let reply = reply.extract_error()?;
                if !Wait::concerns(&reply) {
                    return Ok((reply, None));
                }
                (reply, told)
            }
        };
        match told.extract_error()? {
            Value::Int(acknowledged) => Ok((reply, Some(acknowledged))),
            _ => Ok((reply, Some(0))),
        }
    }
}
