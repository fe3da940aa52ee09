//! Consumers that are killed, and what is delivered again.

use std::process::Stdio;
use std::time::{Duration, Instant};

use idem_testkit::{RedisServer, Reply};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(60);

struct Consumer {
    child: Child,
    says: Lines<BufReader<ChildStdout>>,
}

impl Consumer {
    async fn start(redis: &RedisServer, name: &str, forgetful: bool) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_example-redis-queue"));
        command.arg(redis.url()).arg(name).stdout(Stdio::piped()).kill_on_drop(true);
        if forgetful {
            command.env("FORGET_TO_ACKNOWLEDGE", "1");
        }
        let mut child = command.spawn().unwrap();
        let says = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut consumer = Self { child, says };
        assert_eq!(consumer.line().await, "ready");
        consumer
    }

    async fn line(&mut self) -> String {
        timeout(PATIENCE, self.says.next_line()).await.unwrap().unwrap().expect("a consumer that runs")
    }

    async fn kill_9(mut self) {
        self.child.kill().await.unwrap();
    }
}

/// Asks until it is so.
async fn until(event: &str, mut asked: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !asked() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {event}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn number(reply: &Reply) -> u64 {
    reply.text().parse().unwrap()
}

/// A server of one's own, so that a stream of one name is enough.
async fn redis() -> RedisServer {
    tokio::task::spawn_blocking(|| RedisServer::start(&[])).await.unwrap()
}

fn nothing_is_pending(redis: &RedisServer) -> bool {
    redis.command(&["XPENDING", "orders", "shipping"]).list()[0].integer() == 0
}

#[tokio::test]
async fn a_message_whose_consumer_was_killed_before_it_acknowledged_is_shipped_once() {
    let redis = redis().await;
    let mut first = Consumer::start(&redis, "first", true).await;
    redis.command(&["XADD", "orders", "*", "id", "m-1", "order", "17"]);
    assert_eq!(first.line().await, "shipped 17");
    first.kill_9().await;

    // It is delivered again, and answered from what is stored.
    let mut second = Consumer::start(&redis, "second", false).await;
    assert_eq!(second.line().await, "shipped 17");
    until("the acknowledgement", || nothing_is_pending(&redis)).await;
    assert_eq!(number(&redis.command(&["GET", "asked:m-1"])), 1);
}

#[tokio::test]
async fn a_message_whose_consumer_was_killed_in_the_middle_is_taken_over_and_shipped_once() {
    let redis = redis().await;
    let first = Consumer::start(&redis, "first", false).await;
    redis.command(&["XADD", "orders", "*", "id", "m-1", "order", "17"]);
    until("the carrier to be asked", || redis.command(&["EXISTS", "asked:m-1"]).integer() == 1).await;
    first.kill_9().await;

    let mut second = Consumer::start(&redis, "second", false).await;
    assert_eq!(second.line().await, "shipped 17");
    until("the acknowledgement", || nothing_is_pending(&redis)).await;
    // Asked twice, under one derived key.
    assert_eq!(number(&redis.command(&["GET", "asked:m-1"])), 2);
    assert_eq!(redis.command(&["HLEN", "parcels"]).integer(), 1);
}

#[tokio::test]
async fn a_message_that_its_producer_adds_twice_is_shipped_once() {
    let redis = redis().await;
    let mut consumer = Consumer::start(&redis, "first", false).await;
    for _ in 0..2 {
        redis.command(&["XADD", "orders", "*", "id", "m-1", "order", "17"]);
        assert_eq!(consumer.line().await, "shipped 17");
    }
    until("the acknowledgements", || nothing_is_pending(&redis)).await;
    assert_eq!(number(&redis.command(&["GET", "asked:m-1"])), 1);
}
