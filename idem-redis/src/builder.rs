//! The builder: which server, and how it is used.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use idem_core::store::{StoreError, StoreErrorKind};
use redis::cluster::ClusterClientBuilder;
use redis::{Client, ConnectionInfo, IntoConnectionInfo as _, RedisConnectionInfo};

use crate::address::Address;
use crate::fault::{Fault, misconfigured};
use crate::line::Limits;
use crate::names::Names;
use crate::place::Place;
use crate::sentinel::Sentinel;
use crate::store::RedisStore;

/// The longest time-out that is kept.
const LONGEST: Duration = Duration::from_hours(24 * 365);

/// Says which server a [`RedisStore`] is in, and how it is used.
#[derive(Debug, Clone)]
#[must_use]
pub struct RedisBuilder {
    place: Named,
    prefix: String,
    timeout: Duration,
    response_timeout: Duration,
    connect_timeout: Duration,
    connections: usize,
    answers_within: usize,
    allow_eviction: bool,
    listen: bool,
    replicas: u32,
}

#[derive(Clone)]
enum Named {
    Nothing,
    /// What a URL says that cannot be, and why.
    Refused(&'static str),
    Server(String),
    Sentinel {
        name: String,
        sentinels: Vec<String>,
        primary: Option<String>,
    },
    Cluster(Vec<String>),
}

/// URLs may have a password.
impl fmt::Debug for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "Nothing",
            Self::Refused(_) => "Refused",
            Self::Server(_) => "Server",
            Self::Sentinel { .. } => "Sentinel",
            Self::Cluster(_) => "Cluster",
        })
    }
}

/// What is left to the store of what its builder was told.
#[derive(Debug)]
pub(crate) struct Choices {
    pub(crate) names: Names,
    pub(crate) limits: Limits,
    pub(crate) connections: usize,
    pub(crate) answers_within: usize,
    pub(crate) listen: bool,
    pub(crate) replicas: u32,
}

impl Default for RedisBuilder {
    fn default() -> Self {
        Self {
            place: Named::Nothing,
            prefix: "idem:".to_owned(),
            timeout: Duration::from_secs(5),
            response_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(2),
            connections: 1,
            answers_within: 8 * 1024,
            allow_eviction: false,
            listen: true,
            replicas: 0,
        }
    }
}

impl RedisBuilder {
    /// Takes the place that a URL names.
    ///
    /// | | |
    /// |---|---|
    /// | `redis://user:password@host:port/database` | one server |
    /// | `redis+unix:///path?db=0&user=..&pass=..` | one server, by its socket |
    /// | `redis+sentinel://user:password@host:port,host:port/name/database` | the primary that these Sentinels know under the name |
    /// | `redis+cluster://user:password@host:port,host:port` | the cluster of these nodes |
    ///
    /// `rediss..` means TLS with all of them (feature `tls-rustls`), and `valkey..`, `valkeys..` are the same. The user is the
    /// one of the servers; Sentinels that ask for one are named by [`sentinel`](Self::sentinel). Ports may be left out.
    pub fn url(mut self, url: &str) -> Self {
        self.place = match Address::read(url) {
            Ok(Address::Server(url)) => Named::Server(url),
            Ok(Address::Sentinel { name, sentinels, primary }) => {
                Named::Sentinel { name, sentinels, primary: Some(primary) }
            }
            Ok(Address::Cluster(nodes)) => Named::Cluster(nodes),
            Err(why) => Named::Refused(why),
        };
        self
    }

    /// Takes the primary that Sentinels know under a name.
    ///
    /// `sentinels` are their URLs. The primary is asked for at each new connection, so that a failover is followed.
    /// Whether it wants TLS, a user, a password or a database says [`primary_like`](Self::primary_like).
    pub fn sentinel<U: AsRef<str>>(mut self, name: &str, sentinels: impl IntoIterator<Item = U>) -> Self {
        let sentinels = sentinels.into_iter().map(|url| url.as_ref().to_owned()).collect();
        self.place = Named::Sentinel { name: name.to_owned(), sentinels, primary: None };
        self
    }

    /// Says by a URL how to connect to the primary of [`sentinel`](Self::sentinel); its host and port are not used.
    ///
    /// Default = `redis://primary`: no TLS, no password, database 0.
    pub fn primary_like(mut self, url: &str) -> Self {
        if let Named::Sentinel { primary, .. } = &mut self.place {
            *primary = Some(url.to_owned());
        }
        self
    }

    /// Takes the cluster of these nodes; one that can be reached is enough to find the others.
    ///
    /// All URLs have the same user and password.
    pub fn cluster<U: AsRef<str>>(mut self, nodes: impl IntoIterator<Item = U>) -> Self {
        self.place = Named::Cluster(nodes.into_iter().map(|url| url.as_ref().to_owned()).collect());
        self
    }

    /// Says what the keys of the records begin with. Default = `idem:`.
    ///
    /// Stores with different prefixes do not meet. At most 100 bytes, and no braces; [`open`](Self::open) tells.
    pub fn prefix(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    /// Sets how long a step may take, with all that is repeated and each connection that is made. Default = 5 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how long a reply may take. Default = 2 seconds.
    ///
    /// Then the connection is given up, and the step is repeated on a new one while there is time.
    pub fn response_timeout(mut self, timeout: Duration) -> Self {
        self.response_timeout = timeout;
        self
    }

    /// Sets how long making a connection may take. Default = 2 seconds.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets how many connections the store has. Default = 1.
    ///
    /// Each is used by any number of callers at once. More than one helps where a core is not enough to read and write
    /// all that goes over it, which takes many thousand calls a second or large answers.
    pub fn connections(mut self, count: usize) -> Self {
        self.connections = count;
        self
    }

    /// Sets up to how many bytes an answer is kept within its record. Default = 8 kB.
    ///
    /// A larger one has a key of its own: a completion is then two commands, and so is a replay, but neither has to take
    /// the answer through a script.
    pub fn answers_within(mut self, bytes: usize) -> Self {
        self.answers_within = bytes;
        self
    }

    /// Accepts a server that evicts keys when its memory is full. By default [`open`](Self::open) refuses it.
    ///
    /// Work whose claim or answer was evicted runs again: say so only where that does no harm. A server to which a connection
    /// is made later is refused as well, as [`Misconfigured`](StoreErrorKind::Misconfigured) at each step.
    pub fn allow_eviction(mut self) -> Self {
        self.allow_eviction = true;
        self
    }

    /// Sets whether those who wait for another process's answer are told of it. Default = true.
    ///
    /// From the first of them on, the store keeps one more connection, which is subscribed to a channel. Without it they
    /// look now and then.
    pub fn listen(mut self, listen: bool) -> Self {
        self.listen = listen;
        self
    }

    /// Sets how many replicas must have a step before it counts. Default = 0: none is waited for.
    ///
    /// A claim, a renewal, a completion and a settlement are then done when so many replicas have acknowledged them (the
    /// server's `WAIT`). If they do not within half the [response time-out](Self::response_timeout), the step fails as
    /// [`Unavailable`](StoreErrorKind::Unavailable), although it may last: a claim is then released. That makes the window
    /// smaller in which a failover loses what was acknowledged, and does not close it: a replica that lacks it may be
    /// promoted all the same.
    ///
    /// Each such step takes a command more and, of 16 connections for this purpose, one for as long as it lasts.
    pub fn wait_replicas(mut self, count: u32) -> Self {
        self.replicas = count;
        self
    }

    /// Connects, and looks at the server.
    ///
    /// # Errors
    ///
    /// When a URL or the prefix is refused, no server was named, it cannot be reached within the time-out, it refuses the
    /// user or the password, it is too old, it may evict records, or it is a replica or a node of a cluster where a URL names
    /// one server.
    pub async fn open(self) -> Result<RedisStore, StoreError> {
        if let Some(why) = Names::refuses(&self.prefix) {
            return Err(misconfigured(why));
        }
        // Longer ones are none: an instant cannot be moved as far as a duration is long.
        let [step, response, connect] =
            [self.timeout, self.response_timeout, self.connect_timeout].map(|limit| limit.min(LONGEST));
        let limits = Limits { step, response, connect, allow_eviction: self.allow_eviction };
        let place = match &self.place {
            Named::Nothing => {
                return Err(misconfigured(
                    "no server was named: give a URL, Sentinels or the nodes of a cluster",
                ));
            }
            Named::Refused(why) => return Err(misconfigured(format!("a URL is refused: {why}"))),
            Named::Server(url) => Place::Server(client(url)?),
            Named::Sentinel { name, sentinels, primary } => Place::Sentinel(Sentinel {
                name: name.clone(),
                sentinels: sentinels.iter().map(|url| client(url)).collect::<Result<_, _>>()?,
                primary: info(primary.as_deref().unwrap_or("redis://primary"))?,
            }),
            Named::Cluster(nodes) => cluster(nodes, limits)?,
        };
        let choices = Choices {
            names: Names::new(&self.prefix),
            limits,
            connections: self.connections,
            answers_within: self.answers_within,
            listen: self.listen,
            replicas: self.replicas,
        };
        let place = Arc::new(place);
        let store = RedisStore::new(&place, choices);
        store.check(!place.fails_over()).await?;
        Ok(store)
    }
}

fn cluster(nodes: &[String], limits: Limits) -> Result<Place, StoreError> {
    let infos = nodes.iter().map(|url| info(url)).collect::<Result<Vec<_>, _>>()?;
    let client = ClusterClientBuilder::new(infos)
        // Nodes that are silent must not use up the time for all.
        .connection_timeout(limits.connect / 4)
        .response_timeout(limits.response)
        // The line has an eye on the whole, and repeats as well; pauses of seconds would outlast a failover.
        .retries(4)
        .min_retry_wait(5)
        .max_retry_wait(50)
        .overall_response_timeout(None)
        .build()
        .map_err(|error| Fault::of(error).into_error())?;
    let nodes = nodes.iter().map(|url| self::client(url)).collect::<Result<_, _>>()?;
    Ok(Place::Cluster { client: Box::new(client), nodes })
}

fn client(url: &str) -> Result<Client, StoreError> {
    Client::open(info(url)?).map_err(|error| Fault::of(error).into_error())
}

/// Reads a URL; what is wrong with it is told without what it says.
fn info(url: &str) -> Result<ConnectionInfo, StoreError> {
    let info = url.into_connection_info().map_err(|error| {
        StoreError::with_source(
            StoreErrorKind::Misconfigured,
            format!("a URL is refused: {}", error.category()),
        )
    })?;
    #[cfg(feature = "tls-rustls")]
    if matches!(info.addr(), redis::ConnectionAddr::TcpTls { .. }) {
        crate::tls::choose();
    }
    let settings: RedisConnectionInfo = info.redis_settings().clone();
    Ok(info.set_redis_settings(settings.set_lib_name("idem-redis", env!("CARGO_PKG_VERSION"))))
}
