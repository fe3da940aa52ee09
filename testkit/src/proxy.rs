//! Proxies: they stand between a client and a server, count what the client says, and lose what the server answers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedRwLockWriteGuard, RwLock};
use tokio::task::JoinHandle;

/// What a PostgreSQL client asks first, before it says who it is: whether it may use TLS.
const ASKS_FOR_TLS: u32 = 80_877_103;

/// Commands of MariaDB's clients.
mod command {
    pub(super) const QUIT: u8 = 0x01;
    pub(super) const QUERY: u8 = 0x03;
    pub(super) const EXECUTE: u8 = 0x17;
    pub(super) const SEND_LONG_DATA: u8 = 0x18;
    pub(super) const CLOSE: u8 = 0x19;
}

/// What client and server speak.
#[derive(Debug, Clone, Copy)]
enum Protocol {
    Postgres,
    MariaDb,
    Redis,
}

/// A way to a server on this machine, for as long as it is not dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    url: String,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Seen {
    trips: AtomicU64,
    statements: AtomicU64,
    connections: AtomicU64,
    /// Which of the answers to come is to be lost; 0 if none.
    loses: AtomicU64,
    /// Held by whoever keeps new connections waiting.
    gate: Arc<RwLock<()>>,
    /// Held by whoever keeps answers back.
    answers: Arc<RwLock<()>>,
}

impl Proxy {
    /// Opens a way to a database on this machine, or to a Redis server.
    ///
    /// # Panics
    ///
    /// When the URL has no port, or there is no free one.
    pub async fn before(database: &str) -> Self {
        if let Some(port) = database.strip_prefix("redis://127.0.0.1:") {
            let mut proxy = Self::open(port.parse().expect("a port"), Protocol::Redis).await;
            proxy.url = format!("redis://127.0.0.1:{}", proxy.port);
            return proxy;
        }
        let (protocol, no_tls) = if database.starts_with("postgres") {
            (Protocol::Postgres, "sslmode=disable")
        } else {
            (Protocol::MariaDb, "ssl-mode=DISABLED")
        };
        let (address, name) = database.rsplit_once('/').expect("a database");
        let (host, port) = address.rsplit_once(':').expect("a port");
        let mut proxy = Self::open(port.parse().expect("a port"), protocol).await;
        let mark = if name.contains('?') { '&' } else { '?' };
        proxy.url = format!("{host}:{}/{name}{mark}{no_tls}", proxy.port);
        proxy
    }

    async fn open(port: u16, protocol: Protocol) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let own = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Seen::default());
        let task = tokio::spawn({
            let seen = Arc::clone(&seen);
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(connect(client, port, protocol, Arc::clone(&seen)));
                }
            }
        });
        Self { port: own, url: String::new(), seen, task }
    }

    /// The URL of the database by this way, without TLS, which would hide what is counted.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How often a client has waited for an answer, connecting apart.
    pub fn trips(&self) -> u64 {
        self.seen.trips.load(Ordering::SeqCst)
    }

    /// How many statements were executed.
    pub fn statements(&self) -> u64 {
        self.seen.statements.load(Ordering::SeqCst)
    }

    /// How many connections were opened.
    pub fn connections(&self) -> u64 {
        self.seen.connections.load(Ordering::SeqCst)
    }

    /// Keeps new connections waiting until what it returns is dropped.
    pub async fn hold_connections(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.seen.gate).write_owned().await
    }

    /// Keeps the server's answers back until what it returns is dropped. What is asked is done meanwhile.
    pub async fn hold_answers(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.seen.answers).write_owned().await
    }

    /// Loses the server's next answer, and the connection with it. What was asked has been done by then.
    pub fn lose_next_answer(&self) {
        self.lose_answer(1);
    }

    /// The same with one of the answers to come: 1 is the next. They are told apart if they are asked for one by one.
    pub fn lose_answer(&self, nth: u64) {
        self.seen.loses.store(nth, Ordering::SeqCst);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Carries bytes both ways until one side ends.
async fn connect(client: TcpStream, port: u16, protocol: Protocol, seen: Arc<Seen>) {
    drop(seen.gate.read().await);
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    seen.connections.fetch_add(1, Ordering::SeqCst);
    // Without this each side waits for the other's acknowledgement.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let questions = async {
        match protocol {
            Protocol::Postgres => questions_to_postgres(from_client, to_server, &seen).await,
            Protocol::MariaDb => questions_to_mariadb(from_client, to_server, &seen).await,
            Protocol::Redis => questions_to_redis(from_client, to_server).await,
        }
    };
    tokio::select! {
        _ = questions => {}
        _ = answers(from_server, to_client, &seen) => {}
    }
}

/// Passes on a client's messages one by one.
async fn questions_to_postgres(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    seen: &Seen,
) -> io::Result<()> {
    loop {
        let length = from.read_u32().await?;
        let mut rest = vec![0; length.saturating_sub(4) as usize];
        from.read_exact(&mut rest).await?;
        to.write_all(&[&length.to_be_bytes()[..], &rest].concat()).await?;
        if !rest.starts_with(&ASKS_FOR_TLS.to_be_bytes()) {
            break;
        }
    }
    loop {
        let kind = from.read_u8().await?;
        let length = from.read_u32().await?;
        let mut message = vec![kind];
        message.extend(length.to_be_bytes());
        message.resize(1 + length as usize, 0);
        from.read_exact(&mut message[5..]).await?;
        if matches!(kind, b'S' | b'Q') {
            seen.trips.fetch_add(1, Ordering::SeqCst);
        }
        if matches!(kind, b'E' | b'Q') {
            seen.statements.fetch_add(1, Ordering::SeqCst);
        }
        to.write_all(&message).await?;
    }
}

/// Passes on a client's packets one by one.
async fn questions_to_mariadb(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    seen: &Seen,
) -> io::Result<()> {
    loop {
        let mut packet = vec![0; 4];
        from.read_exact(&mut packet).await?;
        let length = u32::from_le_bytes([packet[0], packet[1], packet[2], 0]);
        let (first, starts) = (packet.len(), packet[3] == 0);
        packet.resize(first + length as usize, 0);
        from.read_exact(&mut packet[first..]).await?;
        // Each command starts to count its packets anew, while those of the log-in go on counting the server's.
        if starts && let Some(command) = packet.get(first) {
            if ![command::QUIT, command::CLOSE, command::SEND_LONG_DATA].contains(command) {
                seen.trips.fetch_add(1, Ordering::SeqCst);
            }
            if [command::QUERY, command::EXECUTE].contains(command) {
                seen.statements.fetch_add(1, Ordering::SeqCst);
            }
        }
        to.write_all(&packet).await?;
    }
}

/// Passes on what a client says. What it says to Redis is counted there.
async fn questions_to_redis(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
    tokio::io::copy(&mut from, &mut to).await.map(drop)
}

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, seen: &Seen) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        drop(seen.answers.read().await);
        let left = seen.loses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left == Ok(1) {
            return Ok(());
        }
        to.write_all(&buffer[..read]).await?;
    }
}
