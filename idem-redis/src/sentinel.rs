//! Sentinels: they tell which server is the primary just now.

use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::aio::MultiplexedConnection;
use redis::{Client, ConnectionAddr, ConnectionInfo, Value};

use crate::fault::{Fault, misconfigured, unavailable};
use crate::place::connect;

/// A primary under a name, and the Sentinels that watch over it.
pub(crate) struct Sentinel {
    pub(crate) name: String,
    pub(crate) sentinels: Vec<Client>,
    /// How to connect to the primary; its address is not used.
    pub(crate) primary: ConnectionInfo,
}

impl Sentinel {
    /// Makes a connection to the server that is the primary, by its own account, too.
    pub(crate) async fn connect(&self, limit: Duration) -> Result<MultiplexedConnection, Fault> {
        let client = self.primary(limit).await?;
        let mut connection = connect(&client, limit).await?;
        let role: Value = redis::cmd("ROLE").query_async(&mut connection).await.map_err(Fault::of)?;
        let is_primary = match role {
            Value::Array(role) => {
                role.first().is_some_and(|role| text(role).is_some_and(|role| role == "master"))
            }
            _ => false,
        };
        if !is_primary {
            return Err(Fault::Busy(unavailable("the server that is to be the primary is a replica")));
        }
        // One that hung, or was cut off, learns late that it is none any more. If that was while it was connected to, the
        // Sentinels know better.
        let named = self.primary(limit).await?;
        if named.get_connection_info().addr() == client.get_connection_info().addr() {
            Ok(connection)
        } else {
            Err(Fault::Busy(unavailable("another server was made the primary")))
        }
    }

    /// The server that is the primary, as the first Sentinel says that answers.
    ///
    /// All are asked at once: one that hangs, or whose machine failed together with the primary's, takes nobody's time.
    pub(crate) async fn primary(&self, limit: Duration) -> Result<Client, Fault> {
        let mut fault = Fault::Refused(misconfigured("no Sentinel was named"));
        let mut asked: FuturesUnordered<_> =
            self.sentinels.iter().map(|sentinel| self.ask(sentinel, limit)).collect();
        while let Some(answer) = asked.next().await {
            match answer {
                Ok(client) => return Ok(client),
                // What may pass counts for more than a Sentinel that was forgotten when the others were set up.
                Err(Fault::Refused(_)) if !matches!(fault, Fault::Refused(_)) => {}
                Err(other) => fault = other,
            }
        }
        Err(match fault {
            Fault::Refused(error) => Fault::Refused(error),
            other => Fault::Unreachable(other.into_error()),
        })
    }

    async fn ask(&self, sentinel: &Client, limit: Duration) -> Result<Client, Fault> {
        let mut connection = connect(sentinel, limit).await?;
        let mut question = redis::cmd("SENTINEL");
        question.arg("GET-MASTER-ADDR-BY-NAME").arg(&self.name);
        let asked =
            tokio::time::timeout(limit, question.query_async::<Option<(String, u16)>>(&mut connection));
        let Ok(answer) = asked.await else {
            return Err(Fault::Unreachable(unavailable("a Sentinel did not answer in time")));
        };
        let Some((host, port)) = answer.map_err(Fault::of)? else {
            let message = format!("the Sentinels know no primary of the name `{}`", self.name);
            return Err(Fault::Refused(misconfigured(message)));
        };
        let address = match self.primary.addr() {
            ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
                ConnectionAddr::TcpTls { host, port, insecure: *insecure, tls_params: tls_params.clone() }
            }
            _ => ConnectionAddr::Tcp(host, port),
        };
        Client::open(self.primary.clone().set_addr(address)).map_err(Fault::of)
    }
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}
