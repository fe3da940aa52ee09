//! Clients that retry by themselves, over a way that loses, delays, cuts and repeats what it carries.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use idem::client::{KeyedRequest, Retries, Sender};
use idem_testkit::{Fault, UnreliableWay};
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::home::{Home, on_each_store};
use crate::http::{Caller, until};
use crate::python;
use crate::service::Service;

/// `IDEM_TEST_ROUNDS=1000` looks for what is seldom.
pub fn charges(otherwise: usize) -> usize {
    std::env::var("IDEM_TEST_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(otherwise)
}

/// A charge that names its key, so that its row tells whose it is.
fn charge(key: &str) -> Value {
    json!({ "amount": 5, "currency": "vnd", "source": "tok_visa", "description": key })
}

/// Each of these charges has one row, also when the last of those that are late has arrived.
pub async fn assert_each_has_one_row(caller: &Caller, ways: &[&UnreliableWay], keys: &[String]) {
    let are_quiet = || ways.iter().all(|way| way.is_quiet());
    until("the end of what is on its way", || async { are_quiet().then_some(()) }).await;
    let mut rows = BTreeMap::new();
    for row in caller.rows("/charges").await {
        *rows.entry(row["description"].as_str().unwrap().to_owned()).or_insert(0) += 1;
    }
    assert_eq!(rows, keys.iter().map(|key| (key.clone(), 1)).collect());
    let faults: u64 = ways.iter().map(|way| way.faults()).sum();
    assert!(faults as usize > keys.len() / 4, "the ways were not that bad: {faults} faults");
}

on_each_store! {
    async fn our_client_charges_each_once(home) {
        let service = Service::start(&home, &[]).await;
        let way = UnreliableWay::to(&service.address, Fault::seeded(1)).await;
        let http = reqwest::Client::new();
        let retries =
            Retries::default().first_wait(Duration::from_millis(20)).longest_wait(Duration::from_millis(200));
        let sender = Sender::new(http.clone()).retries(retries);
        let (at_once, begun) = (Arc::new(Semaphore::new(32)), Instant::now());
        let mut sent = JoinSet::new();
        for number in 0..charges(200) {
            let key = format!("order-{number}");
            let request = http.post(format!("http://{}/charges", way.address())).bearer_auth("alice");
            let request = KeyedRequest::with_key(&key, request.json(&charge(&key)).build().unwrap()).unwrap();
            let (sender, at_once) = (sender.clone(), at_once.clone());
            sent.spawn(async move {
                let _turn = at_once.acquire_owned().await.unwrap();
                let response = sender.send(&request).await.unwrap();
                assert_eq!(response.status(), 201, "{response:?}");
                let body: Value = serde_json::from_slice(response.body()).unwrap();
                assert_eq!(body["description"], request.key());
                (key, response.is_replayed())
            });
        }
        let (keys, replayed): (Vec<_>, Vec<_>) = sent.join_all().await.into_iter().unzip();
        assert_each_has_one_row(&service.caller("alice"), &[&way], &keys).await;
        println!(
            "{} charges by {} requests, of which {} met a fault; {} were answered by a replay; in {:?}",
            keys.len(),
            way.requests(),
            way.faults(),
            replayed.into_iter().filter(|replayed| *replayed).count(),
            begun.elapsed(),
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn curl_with_retries_charges_each_once() {
    let home = Home::sqlite().await;
    let service = Service::start(&home, &[]).await;
    let way = UnreliableWay::to(&service.address, Fault::seeded(2)).await;
    // A retry of curl's waits for a second at least, so many wait at the same time.
    let at_once = Arc::new(Semaphore::new(100));
    let mut sent = JoinSet::new();
    for number in 0..charges(40) {
        let key = format!("order-{number}");
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail"])
            .args(["--retry", "30", "--retry-all-errors", "--retry-delay", "1"])
            .args(["-H", "Authorization: Bearer alice", "-H", "Content-Type: application/json"])
            .args(["-H", &format!("Idempotency-Key: {key}"), "-d", &charge(&key).to_string()])
            .arg(format!("http://{}/charges", way.address()))
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let at_once = at_once.clone();
        sent.spawn(async move {
            let _turn = at_once.acquire_owned().await.unwrap();
            let output = curl.output().await.unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            key
        });
    }
    let keys = sent.join_all().await;
    assert_each_has_one_row(&service.caller("alice"), &[&way], &keys).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_requests_with_the_retries_of_urllib3_charges_each_once() {
    let Some(python) = python::with("requests").await else { return };
    let home = Home::sqlite().await;
    let service = Service::start(&home, &[]).await;
    let way = UnreliableWay::to(&service.address, Fault::seeded(3)).await;
    let charges = charges(100);
    python::run(&python, include_str!("bad_way_requests.py"), &[way.address(), &charges.to_string()]).await;
    let keys: Vec<_> = (0..charges).map(|number| format!("order-{number}")).collect();
    assert_each_has_one_row(&service.caller("alice"), &[&way], &keys).await;
}
