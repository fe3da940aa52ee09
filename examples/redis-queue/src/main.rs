//! A consumer of a Redis stream that does the work of each message once.
//!
//! A stream delivers at least once: what a consumer has not acknowledged when it dies is delivered to another. Each message
//! carries an id that its producer gave it, which is the idempotency key here; the id of the stream's entry would not do,
//! as a producer that hears nothing adds its message again.
//!
//! ```sh
//! cargo run -p example-redis-queue -- redis://127.0.0.1:6379 consumer-1
//! redis-cli XADD orders '*' id m-1 order 17
//! ```

use std::error::Error;
use std::fmt;
use std::time::Duration;

use idem::{Idempotency, RedisStore, idempotent};
use redis::aio::MultiplexedConnection;
use redis::streams::{StreamAutoClaimReply, StreamId, StreamReadReply};
use redis::{AsyncConnectionConfig, RedisError, cmd};
use serde::{Deserialize, Serialize};

const STREAM: &str = "orders";
const GROUP: &str = "shipping";
/// How long a consumer may be silent before others take its messages. Two of them may work at once then: that is what the
/// lease is for, which is renewed while the work goes on.
const SILENCE: Duration = Duration::from_secs(2);

#[derive(Clone, Serialize)]
struct OrderPaid {
    id: String,
    order: u64,
}

#[derive(Serialize, Deserialize)]
struct Shipped {
    parcel: u64,
}

#[derive(Debug)]
enum Failed {
    Idempotency(idem::Error),
    Redis(RedisError),
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idempotency(error) => error.fmt(f),
            Self::Redis(error) => write!(f, "the carrier cannot be asked: {error}"),
        }
    }
}

impl From<idem::Error> for Failed {
    fn from(error: idem::Error) -> Self {
        Self::Idempotency(error)
    }
}

impl From<RedisError> for Failed {
    fn from(error: RedisError) -> Self {
        Self::Redis(error)
    }
}

/// Ships an order. Should this process die after it has shipped and before that is stored, the next one runs this again; the
/// carrier takes a key that is the same for both, and ships once.
#[idempotent(key = paid.id, ttl = "7d", scope = shared, operation = "orders.ship", engine = idem, skip(carrier, idem))]
async fn ship(
    paid: OrderPaid,
    mut carrier: MultiplexedConnection,
    idem: Idempotency,
) -> Result<Shipped, Failed> {
    let run = idem::current().expect("an annotated function has a run");
    // The carrier, for which a hash stands that takes each key once; and how often it was asked.
    let _: u64 = cmd("HSETNX")
        .arg("parcels")
        .arg(run.derive("parcel"))
        .arg(paid.order)
        .query_async(&mut carrier)
        .await?;
    let _: u64 = cmd("INCR").arg(format!("asked:{}", paid.id)).query_async(&mut carrier).await?;
    // Packing takes a while.
    tokio::time::sleep(Duration::from_millis(300)).await;
    Ok(Shipped { parcel: paid.order })
}

struct Consumer {
    name: String,
    /// Waits for messages, and must not wait for anything else.
    reads: MultiplexedConnection,
    writes: MultiplexedConnection,
    idem: Idempotency,
}

impl Consumer {
    async fn open(url: &str, name: &str) -> Result<Self, Box<dyn Error>> {
        let client = redis::Client::open(url)?;
        let patient = AsyncConnectionConfig::new().set_response_timeout(None);
        let reads = client.get_multiplexed_async_connection_with_config(&patient).await?;
        let mut writes = client.get_multiplexed_async_connection().await?;
        let made: Result<(), RedisError> =
            cmd("XGROUP").arg(("CREATE", STREAM, GROUP, 0, "MKSTREAM")).query_async(&mut writes).await;
        if let Err(error) = made
            && error.code() != Some("BUSYGROUP")
        {
            return Err(error.into());
        }
        let idem = Idempotency::builder(RedisStore::open(url).await?).lease(SILENCE).build()?;
        Ok(Self { name: name.to_owned(), reads, writes, idem })
    }

    /// Does what there is to do.
    async fn turn(&mut self) -> Result<(), RedisError> {
        // First what others have left behind.
        let left: StreamAutoClaimReply = cmd("XAUTOCLAIM")
            .arg((STREAM, GROUP, &self.name, SILENCE.as_millis() as u64, "0-0"))
            .query_async(&mut self.writes)
            .await?;
        for entry in left.claimed {
            self.take(entry).await?;
        }
        let new: Option<StreamReadReply> = cmd("XREADGROUP")
            .arg(("GROUP", GROUP, &self.name, "COUNT", 10, "BLOCK", 500, "STREAMS", STREAM, ">"))
            .query_async(&mut self.reads)
            .await?;
        for stream in new.into_iter().flat_map(|new| new.keys) {
            for entry in stream.ids {
                self.take(entry).await?;
            }
        }
        Ok(())
    }

    /// Ships one, and acknowledges it if it is shipped now or was before.
    async fn take(&mut self, entry: StreamId) -> Result<(), RedisError> {
        let (Some(id), Some(order)) = (entry.get::<String>("id"), entry.get::<u64>("order")) else {
            eprintln!("{}: not an order, left for somebody to look at", entry.id);
            return Ok(());
        };
        match ship(OrderPaid { id, order }, self.writes.clone(), self.idem.clone()).await {
            Ok(shipped) => {
                println!("shipped {}", shipped.parcel);
                if std::env::var_os("FORGET_TO_ACKNOWLEDGE").is_some() {
                    return Ok(());
                }
                let _: u64 =
                    cmd("XACK").arg((STREAM, GROUP, &entry.id)).query_async(&mut self.writes).await?;
            }
            // Above all what is in flight elsewhere: acknowledged, it would be lost if the other one dies.
            Err(error) => eprintln!("{}: not yet: {error}", entry.id),
        }
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or_else(|| "redis://127.0.0.1:6379".into());
    let name = arguments.next().unwrap_or_else(|| "consumer-1".into());
    let mut consumer = Consumer::open(&url, &name).await?;
    println!("ready");
    loop {
        consumer.turn().await?;
    }
}
