//! Clients that hang up in the middle of their request.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::home::{Home, on_each_store};
use crate::http::{Caller, until};
use crate::service::Service;

const CLIENTS: usize = 1000;
const AT_ONCE: usize = 200;

/// A charge that names its key, so that its row tells whose it is. It takes long after that row is there.
fn charge(key: &str) -> Value {
    json!({ "amount": 5, "currency": "vnd", "source": "tok_slowafter_2000", "description": key })
}

async fn send(address: &str, bearer: &str, key: &str) -> TcpStream {
    let body = charge(key).to_string();
    let request = format!(
        "POST /charges HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {bearer}\r\nIdempotency-Key: {key}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Hangs up, every second time rudely; tells whether that was before any answer.
fn hang_up(stream: TcpStream, rudely: bool) -> bool {
    let answered = stream.try_read(&mut [0]).map_err(|error| error.kind()) != Err(ErrorKind::WouldBlock);
    if rudely {
        // RST instead of FIN.
        stream.set_zero_linger().unwrap();
    }
    drop(stream);
    !answered
}

/// Sends requests, and hangs up each as soon as its row is there; returns how many hung up before they were answered.
async fn hang_up_in_the_middle(service: &Service, caller: &Caller, bearer: &str, keys: &[String]) -> usize {
    let mut waiting = HashMap::new();
    for key in keys {
        waiting.insert(key.clone(), send(&service.address, bearer, key).await);
    }
    let (mut in_time, mut count) = (0, 0);
    while !waiting.is_empty() {
        let rows = until("more rows", || async {
            let rows = caller.rows("/charges").await;
            (rows.len() > count).then_some(rows)
        })
        .await;
        count = rows.len();
        for row in rows {
            if let Some(stream) = waiting.remove(row["description"].as_str().unwrap()) {
                in_time += usize::from(hang_up(stream, waiting.len().is_multiple_of(2)));
            }
        }
    }
    in_time
}

on_each_store! {
    async fn requests_of_1000_clients_that_hang_up_run_to_their_end_and_are_replayed(home) {
        let service = Service::start(&home, &[]).await;
        let begun = Instant::now();
        let (mut in_time, mut all) = (0, 0);
        for batch in 0.. {
            assert!(batch < 5 * CLIENTS / AT_ONCE, "this machine is too busy for this test: {in_time} of {all}");
            let bearer = format!("shop-{batch}");
            let caller = service.caller(&bearer);
            let keys: Vec<_> = (0..AT_ONCE).map(|client| format!("{client}-of-{batch}")).collect();
            in_time += hang_up_in_the_middle(&service, &caller, &bearer, &keys).await;
            all += AT_ONCE;

            let mut retries = JoinSet::new();
            for key in keys {
                let caller = caller.clone();
                retries.spawn(async move { caller.retry("/charges", &key, &charge(&key)).await.0 });
            }
            // Every handler went on without its caller, and its answer was kept.
            for replay in retries.join_all().await {
                assert!(replay.status == 201 && replay.is_replay(), "{replay:?}");
                assert_eq!(replay.json()["attempt"], 1);
            }
            assert_eq!(caller.rows("/charges").await.len(), AT_ONCE);
            if in_time >= CLIENTS {
                break;
            }
        }
        println!(
            "{in_time} clients hung up in the middle and {} later: {all} rows and {all} replays in {:?}",
            all - in_time,
            begun.elapsed(),
        );
    }
}
