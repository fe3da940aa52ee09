//! The store of Redis against the bare commands that could do the same, through the same driver.
//!
//! `IDEM_BENCH_CALLERS=1,64`, `IDEM_BENCH_ANSWER=1000` and `IDEM_BENCH_CONNECTIONS=1,2` narrow it down.

mod bare;
mod benchmark;
mod memory;

use std::sync::Arc;
use std::time::Duration;

use idem::RedisStore;
use idem_testkit::RedisServer;

use crate::contest::{Contender, callers, contest, runtime};
use crate::ours;

/// How many call at once, unless something else is asked for.
const CALLERS: &str = "1,16,64";
/// How large the answers are, in bytes.
const ANSWERS: &str = "1000,64000";
/// The database of what is made in a turn and removed after it; what is replayed is in another one and stays.
const MADE: &str = "1";
/// How many connections the stores have.
const CONNECTIONS: &str = "1,2,4";

/// Time-outs of both sides cost what they cost, but are never met.
const PATIENCE: Duration = Duration::from_mins(1);

fn numbers(variable: &str, usual: &str) -> Vec<usize> {
    let named = std::env::var(variable).unwrap_or_else(|_| usual.into());
    named.split(',').map(|number| number.parse().expect("a number")).collect()
}

async fn store(url: &str, prefix: &str, connections: usize) -> RedisStore {
    let store = RedisStore::builder().url(url).prefix(prefix).connections(connections);
    store.timeout(PATIENCE).response_timeout(PATIENCE).open().await.expect("a store")
}

pub(crate) fn measure() {
    let (runtime, server) = (runtime(), Arc::new(RedisServer::start(&[])));
    let (kept, made) = (server.url().to_owned(), format!("{}/{MADE}", server.url()));
    for len in numbers("IDEM_BENCH_ANSWER", ANSWERS) {
        let tidied = |contender: Contender| {
            let server = Arc::clone(&server);
            contender.tidy(move || {
                let mut connection = server.connect().expect("a connection");
                connection.command(&["SELECT", MADE]);
                connection.command(&["FLUSHDB", "SYNC"]);
            })
        };
        let (fresh, replay) = runtime.block_on(async {
            let (pair, get) = bare::contenders(&made, &kept, len).await;
            let (mut fresh, mut replay) = (vec![tidied(pair)], vec![get]);
            for connections in numbers("IDEM_BENCH_CONNECTIONS", CONNECTIONS) {
                let name = format!("RedisStore, {connections} connection(s)");
                // As long as the default one.
                let prefix = format!("ours{connections}");
                let making = ours::contenders(&name, store(&made, &prefix, connections).await, len).await;
                let keeping = ours::contenders(&name, store(&kept, &prefix, connections).await, len).await;
                fresh.push(tidied(making.0));
                replay.push(keeping.1);
            }
            (fresh, replay)
        });
        for callers in callers(CALLERS) {
            let title = format!("Redis, {len} bytes");
            contest(&runtime, &format!("{title}: fresh call"), callers, &fresh);
            contest(&runtime, &format!("{title}: replay"), callers, &replay);
            benchmark::run(&server, callers, len);
        }
        runtime.block_on(memory::measure(&server, len));
        server.command(&["FLUSHALL"]);
    }
}
