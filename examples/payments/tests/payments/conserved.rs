//! Money is conserved: many transfers with duplicates, by several processes on one database.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::Value;
use tokio::task::JoinSet;

use crate::home::{Home, on_each_sql_store};
use crate::http::{Answer, Caller, transfer, until};
use crate::service::Service;
use crate::transfers::balances;

/// Each is asked two or three times, which makes 10,000 requests.
const KEYS: usize = 4_000;
const SERVICES: usize = 4;
const AT_ONCE: usize = 48;
const ACCOUNTS: usize = 20;

/// No account ever has so much.
const TOO_MUCH: i64 = 1_000_000;
/// The database refuses the last write of such a transfer.
const FAILS: i64 = 13;

/// The transfer of a key: one in ten is never covered, one in ten fails, and so do some of the others by chance.
fn asked(key: usize) -> (usize, usize, i64) {
    // Of no use but that it looks like chance.
    let chance = key
        .wrapping_add(1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15)
        .rotate_left(29)
        .wrapping_mul(0x94D0_49BB_1331_11EB);
    let from = chance % ACCOUNTS;
    let to = (from + 1 + chance / ACCOUNTS % (ACCOUNTS - 1)) % ACCOUNTS;
    let amount = match key % 10 {
        3 => TOO_MUCH,
        7 => FAILS,
        _ => 20 + i64::try_from(chance / 1000 % 80).unwrap(),
    };
    (from, to, amount)
}

fn account(number: usize) -> String {
    format!("account-{number:02}")
}

/// Each key two or three times, one after the other: so they are asked at about the same time.
fn requests() -> Vec<usize> {
    (0..KEYS).flat_map(|key| std::iter::repeat_n(key, 2 + key % 2)).collect()
}

/// Asks as clients do: until the answer says what has become of the transfer.
async fn ask(caller: &Caller, key: &str, body: &Value) -> Answer {
    until("a final answer", || async {
        let (answer, _) = caller.retry("/transfers", key, body).await;
        // On a busy machine the database may be out of reach for a while; what the ledger says is final.
        (answer.code().as_deref() != Some("idempotency_store_unavailable")).then_some(answer)
    })
    .await
}

/// Asks all of the services, many at once; returns the answers by their keys.
async fn ask_all(services: &[Service]) -> BTreeMap<usize, Vec<Answer>> {
    let (requests, next) = (Arc::new(requests()), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for _ in 0..AT_ONCE {
        let callers: Vec<_> = services.iter().map(|service| service.caller("alice")).collect();
        let (requests, next) = (requests.clone(), next.clone());
        tasks.spawn(async move {
            let mut answers = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(&key) = requests.get(number) else { return answers };
                let (from, to, amount) = asked(key);
                let body = transfer(&account(from), &account(to), amount);
                let caller = &callers[number % callers.len()];
                answers.push((key, ask(caller, &format!("key-{key}"), &body).await));
            }
        });
    }
    let mut by_key: BTreeMap<usize, Vec<Answer>> = BTreeMap::new();
    for (key, answer) in tasks.join_all().await.into_iter().flatten() {
        by_key.entry(key).or_default().push(answer);
    }
    by_key
}

on_each_sql_store! {
    async fn every_account_has_what_a_model_says_that_applies_each_key_once(home) {
        let mut services = Vec::new();
        for _ in 0..SERVICES {
            services.push(Service::start(&home, &[]).await);
        }
        // Opens all accounts, and leaves 1000 in each.
        let alice = services[0].caller("alice");
        let mut opened = Vec::new();
        for number in 0..ACCOUNTS {
            let body = transfer(&account(number), &account((number + 1) % ACCOUNTS), 1);
            let answer = alice.post("/transfers", format!("open-{number}").as_str(), &body).await;
            opened.push(answer.json()["id"].clone());
        }
        home.let_transfers_fail(FAILS).await;
        let begun = Instant::now();
        let answers = ask_all(&services).await;
        let elapsed = begun.elapsed();

        let mut model: BTreeMap<_, i64> = (0..ACCOUNTS).map(|number| (account(number), 1000)).collect();
        let mut accepted = opened;
        let (mut declined, mut failed) = (0, 0);
        for (key, answers) in &answers {
            let (from, to, amount) = asked(*key);
            if amount == FAILS {
                assert!(answers.iter().all(|answer| answer.status == 503 || answer.status == 402), "{answers:?}");
            } else {
                let first: Vec<_> = answers.iter().filter(|answer| !answer.is_replay()).collect();
                assert_eq!(first.len(), 1, "{key}: {answers:?}");
                assert!(answers.iter().all(|answer| answer.body == first[0].body), "{key}: {answers:?}");
            }
            match answers[0].status {
                201 => {
                    *model.get_mut(&account(from)).unwrap() -= amount;
                    *model.get_mut(&account(to)).unwrap() += amount;
                    accepted.push(answers[0].json()["id"].clone());
                }
                402 => declined += 1,
                503 => failed += 1,
                _ => panic!("{key}: {answers:?}"),
            }
        }
        println!(
            "{KEYS} keys in {} requests: {} accepted, {declined} declined, {failed} failed, in {elapsed:?}",
            answers.values().map(Vec::len).sum::<usize>(), accepted.len(),
        );
        assert!(declined >= KEYS / 10 && failed > 0);

        let mut there = balances(&alice).await;
        there.remove("alice");
        assert_eq!(there, model);
        assert!(there.values().all(|balance| *balance >= 0), "{there:?}");
        assert_eq!(there.values().sum::<i64>(), 1000 * i64::try_from(ACCOUNTS).unwrap());
        let mut rows: Vec<Value> = alice.rows("/transfers").await.iter().map(|row| row["id"].clone()).collect();
        rows.sort_by_key(Value::to_string);
        accepted.sort_by_key(Value::to_string);
        assert_eq!(rows, accepted, "one row a key");
    }
}
