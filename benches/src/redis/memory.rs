//! What a completed record takes of the server's memory.

use idem_testkit::RedisServer;

use super::store;
use crate::ours;

/// Prints what the server says of one record, and by how much its memory grew for each of many.
pub(super) async fn measure(server: &RedisServer, len: usize) {
    let mut connection = server.connect().expect("a connection");
    connection.command(&["FLUSHALL"]);
    let used = || -> f64 { server.info("memory")["used_memory"].parse().expect("a number") };
    let before = used();
    ours::contenders("filling", store(server.url(), "idem:", 1).await, len).await;
    let grown = (used() - before) / ours::KEPT as f64;
    // A large answer has a key of its own.
    let keys = connection.command(&["KEYS", "*"]);
    let mut usage = |key| connection.command(&[&b"MEMORY"[..], b"USAGE", key]).integer();
    let told: i64 = keys.list().iter().map(|key| usage(key.bytes())).sum();
    let own = told as f64 / ours::KEPT as f64;
    println!(
        "\na record with an answer of {len} bytes: MEMORY USAGE {own:.0}, and {grown:.0} more in use for each"
    );
}
