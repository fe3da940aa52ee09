//! Unreliable ways: proxies between HTTP clients and a server that lose, delay, cut and repeat what they carry.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// What becomes of one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing bad.
    None,
    /// The connection ends before the server hears of the request.
    LoseRequest,
    /// The server answers, and the connection ends before the client hears of it.
    LoseAnswer,
    /// The client hears half of the answer.
    CutAnswer,
    /// The client is hung up at once, and the server hears of the request so much later.
    DeliverLate(Duration),
    /// The server hears of the request so much later, and the client waits.
    DelayRequest(Duration),
    /// The client hears of the answer so much later.
    DelayAnswer(Duration),
    /// The server hears of the request twice at once; the client gets the first of the answers.
    Duplicate,
}

impl Fault {
    /// The same faults in the same order for the same seed: every second request has one, for as long as the numbers of
    /// requests are not used up.
    pub fn seeded(seed: u64) -> impl Fn(u64) -> Self + Send + Sync + 'static {
        move |number| {
            const SOON: Duration = Duration::from_millis(30);
            match mixed(seed.wrapping_add(number)) % 14 {
                0 => Self::LoseRequest,
                1 | 2 => Self::LoseAnswer,
                3 => Self::CutAnswer,
                4 => Self::DeliverLate(SOON),
                5 => Self::DelayRequest(SOON),
                6 => Self::DelayAnswer(SOON),
                7 => Self::Duplicate,
                _ => Self::None,
            }
        }
    }
}

/// Spreads numbers (`SplitMix64`).
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// A way to an HTTP/1.1 server on this machine that loses, delays, cuts and repeats what it carries, for as long as it is
/// not dropped.
///
/// Each request has a connection of its own, to both sides. Bodies need a length: chunked requests are not understood.
pub struct UnreliableWay {
    address: String,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

struct Seen {
    requests: AtomicU64,
    faults: AtomicU64,
    under_way: AtomicU64,
    fault: Box<dyn Fn(u64) -> Fault + Send + Sync>,
}

impl fmt::Debug for UnreliableWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnreliableWay").field("address", &self.address).finish_non_exhaustive()
    }
}

impl UnreliableWay {
    /// Opens a way to `HOST:PORT`; `fault` tells what becomes of each request, which are numbered from 0.
    ///
    /// # Panics
    ///
    /// When there is no free port.
    pub async fn to(server: &str, fault: impl Fn(u64) -> Fault + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address").to_string();
        let seen = Arc::new(Seen {
            requests: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            fault: Box::new(fault),
        });
        let task = tokio::spawn({
            let (seen, server) = (Arc::clone(&seen), server.to_owned());
            async move {
                while let Ok((client, _)) = listener.accept().await {
                    tokio::spawn(connect(client, server.clone(), Arc::clone(&seen)));
                }
            }
        });
        Self { address, seen, task }
    }

    /// `127.0.0.1:PORT`, where clients connect to.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// How many requests were sent this way.
    pub fn requests(&self) -> u64 {
        self.seen.requests.load(Ordering::SeqCst)
    }

    /// Whether nothing is on its way, also of what is delivered late or twice.
    pub fn is_quiet(&self) -> bool {
        self.seen.under_way.load(Ordering::SeqCst) == 0
    }

    /// To how many of them something happened.
    pub fn faults(&self) -> u64 {
        self.seen.faults.load(Ordering::SeqCst)
    }
}

impl Drop for UnreliableWay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads one request, and carries it.
async fn connect(mut client: TcpStream, server: String, seen: Arc<Seen>) -> io::Result<()> {
    let _ = client.set_nodelay(true);
    let Some(request) = read_request(&mut client).await? else { return Ok(()) };
    // Counted before its client may hear of anything.
    seen.under_way.fetch_add(1, Ordering::SeqCst);
    let carried = carry(client, server, request, &seen).await;
    seen.under_way.fetch_sub(1, Ordering::SeqCst);
    carried
}

/// Carries one request and its answer.
async fn carry(mut client: TcpStream, server: String, request: Vec<u8>, seen: &Seen) -> io::Result<()> {
    let number = seen.requests.fetch_add(1, Ordering::SeqCst);
    let fault = (seen.fault)(number);
    if fault != Fault::None {
        seen.faults.fetch_add(1, Ordering::SeqCst);
    }
    let answer = match fault {
        Fault::LoseRequest => return Ok(()),
        Fault::DeliverLate(time) => {
            drop(client);
            sleep(time).await;
            return ask(&server, &request).await.map(drop);
        }
        Fault::LoseAnswer => return ask(&server, &request).await.map(drop),
        Fault::DelayRequest(time) => {
            sleep(time).await;
            ask(&server, &request).await?
        }
        Fault::Duplicate => {
            let twin = tokio::spawn({
                let (server, request) = (server.clone(), request.clone());
                async move { ask(&server, &request).await }
            });
            let answer = ask(&server, &request).await?;
            // Whatever it was answered: it was heard.
            let _ = twin.await;
            answer
        }
        Fault::None | Fault::CutAnswer | Fault::DelayAnswer(_) => ask(&server, &request).await?,
    };
    if let Fault::DelayAnswer(time) = fault {
        sleep(time).await;
    }
    let end = if fault == Fault::CutAnswer { answer.len() / 2 } else { answer.len() };
    client.write_all(&answer[..end]).await?;
    client.shutdown().await
}

/// Reads a request to its end, and asks the server in it to close its connection; `None` if there is none.
async fn read_request(client: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let mut request = Vec::new();
    let head_len = loop {
        if let Some(at) = request.windows(4).position(|window| window == b"\r\n\r\n") {
            break at + 4;
        }
        if client.read_buf(&mut request).await? == 0 {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&request[..head_len]).into_owned();
    let mut lines = head.trim_end().split("\r\n");
    let mut own = format!("{}\r\n", lines.next().unwrap_or_default());
    let mut body_len = 0;
    for line in lines {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        match name.to_ascii_lowercase().as_str() {
            "connection" | "keep-alive" => continue,
            "content-length" => body_len = value.trim().parse().map_err(io::Error::other)?,
            // Who sends it waits a while, and then sends the body all the same.
            "expect" => client.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?,
            _ => {}
        }
        if !name.eq_ignore_ascii_case("expect") {
            own.push_str(line);
            own.push_str("\r\n");
        }
    }
    own.push_str("Connection: close\r\n\r\n");
    while request.len() < head_len + body_len {
        if client.read_buf(&mut request).await? == 0 {
            return Ok(None);
        }
    }
    let mut own = own.into_bytes();
    own.extend_from_slice(&request[head_len..head_len + body_len]);
    Ok(Some(own))
}

/// Asks the server and reads what it says until it closes.
async fn ask(server: &str, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(server).await?;
    let _ = server.set_nodelay(true);
    server.write_all(request).await?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await?;
    Ok(answer)
}
