//! Bare commands on one connection that all callers share.
//!
//! What no store can beat one by one: `SET NX PX` and `SET XX PX` for a fresh call, one `GET` for a replay. They keep no
//! attempt, no binding and no payload's fingerprint, and overwrite whatever a successor made of the key.

use std::fmt::Write as _;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client, cmd};

use super::PATIENCE;
use crate::contest::{Contender, id};
use crate::ours::KEPT;

/// In milliseconds: as the store's.
const LEASE: u32 = 30_000;
const DAY: u32 = 86_400_000;

struct Bare {
    connection: MultiplexedConnection,
    answer: Vec<u8>,
}

impl Bare {
    async fn open(url: &str, len: usize) -> Arc<Self> {
        let client = Client::open(url).expect("a URL");
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(PATIENCE));
        let connection = client.get_multiplexed_async_connection_with_config(&config);
        let connection = connection.await.expect("a connection");
        Arc::new(Self { connection, answer: vec![b'x'; len] })
    }

    /// A key as long as the store's.
    fn key(kind: u8, n: u64) -> String {
        let mut key = String::with_capacity(71);
        key.push_str("bare:{");
        for byte in id(kind, n) {
            write!(key, "{byte:02x}").expect("a string takes everything");
        }
        key.push('}');
        key
    }

    async fn fresh(&self, kind: u8, n: u64) {
        let (key, mut connection) = (Self::key(kind, n), self.connection.clone());
        let mut set = cmd("SET");
        set.arg(&key).arg(&n.to_be_bytes()).arg("NX").arg("PX").arg(LEASE);
        let claimed: bool = set.query_async(&mut connection).await.expect("a claim");
        let mut set = cmd("SET");
        set.arg(&key).arg(&self.answer).arg("XX").arg("PX").arg(DAY);
        let completed: bool = set.query_async(&mut connection).await.expect("a completion");
        assert!(claimed && completed);
    }

    async fn replay(&self, kind: u8, n: u64) {
        let (key, mut connection) = (Self::key(kind, n), self.connection.clone());
        let answer: Vec<u8> = cmd("GET").arg(&key).query_async(&mut connection).await.expect("an answer");
        assert_eq!(answer, self.answer);
    }
}

/// The pair in one database, and the `GET` in another.
pub(super) async fn contenders(made: &str, kept: &str, len: usize) -> (Contender, Contender) {
    let (pair, get) = (Bare::open(made, len).await, Bare::open(kept, len).await);
    for n in 0..KEPT {
        get.fresh(1, n).await;
    }
    (
        Contender::new("bare SET NX PX + SET XX PX", move |n| {
            let bare = Arc::clone(&pair);
            async move { bare.fresh(2, n).await }
        }),
        Contender::new("bare GET", move |n| {
            let bare = Arc::clone(&get);
            async move { bare.replay(1, n % KEPT).await }
        }),
    )
}
