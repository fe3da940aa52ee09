//! Transfers: the money and the answer in one commit.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::home::{Home, on_each_sql_store, on_these_stores};
use crate::http::{Caller, transfer};
use crate::service::Service;
use crate::trigger::Step;

/// What is in each account.
pub async fn balances(caller: &Caller) -> BTreeMap<String, i64> {
    let rows = caller.rows("/accounts").await;
    let balance = |row: &Value| (row["account"].as_str().unwrap().into(), row["balance"].as_i64().unwrap());
    rows.iter().map(balance).collect()
}

fn two_accounts(alice: i64, bob: i64) -> BTreeMap<String, i64> {
    [("alice".to_owned(), alice), ("bob".to_owned(), bob)].into()
}

on_each_sql_store! {
    async fn a_transfer_moves_its_money_once(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        assert_eq!(alice.rows("/accounts").await, [json!({ "account": "alice", "balance": 1000 })]);
        let body = transfer("alice", "bob", 300);
        let first = alice.post("/transfers", "k", &body).await;
        first.assert_created(1);
        for (field, value) in body.as_object().unwrap() {
            assert_eq!(&first.json()[field], value, "{field}");
        }
        assert_eq!(alice.get(first.header("location").unwrap()).await.json(), first.json());
        for _ in 0..3 {
            alice.post("/transfers", "k", &body).await.assert_replays(&first);
        }
        assert_eq!(alice.rows("/transfers").await, [first.json()]);
        assert_eq!(balances(&alice).await, two_accounts(700, 1300));

        let other = alice.post("/transfers", "k", &transfer("alice", "bob", 301)).await;
        assert_eq!((other.status, other.code().as_deref()), (422, Some("idempotency_conflict")));
        assert_eq!(alice.post("/transfers", None, &body).await.status, 400);
        // The way back, under the same key of another caller and of another operation.
        let bob = service.caller("bob");
        bob.post("/transfers", "k", &transfer("bob", "alice", 1300)).await.assert_created(1);
        alice.charge("k", "tok_visa").await.assert_created(1);
        assert_eq!(balances(&alice).await, two_accounts(2000, 0));
        assert_eq!(bob.get(first.header("location").unwrap()).await.status, 404);
    }

    async fn a_transfer_without_cover_is_declined_and_moves_nothing(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let body = transfer("alice", "bob", 1001);
        let first = alice.post("/transfers", "k", &body).await;
        assert_eq!((first.status, first.code().as_deref()), (402, Some("insufficient_funds")));
        assert!(!first.is_replay());
        alice.post("/transfers", "k", &body).await.assert_replays(&first);
        alice.post("/transfers", "more", &transfer("carol", "alice", 1)).await.assert_created(1);
        // A late duplicate does not turn a delivered decline into a transfer.
        alice.post("/transfers", "k", &body).await.assert_replays(&first);
        alice.post("/transfers", "again", &body).await.assert_created(1);
        alice.post("/transfers", "all", &transfer("carol", "bob", i64::MAX)).await;
        let mut expected = two_accounts(0, 2001);
        expected.insert("carol".into(), 999);
        assert_eq!(balances(&alice).await, expected);
        assert_eq!(alice.rows("/transfers").await.len(), 2);
    }

    async fn what_is_no_transfer_is_refused(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        for (field, value) in [
            ("amount", json!(0)),
            ("amount", json!(-1)),
            ("amount", json!(1.5)),
            ("amount", json!("5")),
            ("from", json!("")),
            ("from", json!(7)),
            ("to", json!("b ob")),
            ("to", json!("b\u{0}b")),
            ("to", json!("b".repeat(65))),
            ("colour", json!("red")),
        ] {
            let mut body = transfer("alice", "bob", 5);
            body[field] = value;
            let refused = alice.post("/transfers", "k", &body).await;
            assert_eq!(refused.status, 422, "{body}: {refused:?}");
            assert!(refused.body.contains(field), "{body}: {refused:?}");
        }
        assert_eq!(alice.post("/transfers", "k", &json!({ "from": "alice", "to": "bob" })).await.status, 422);
        let same = alice.post("/transfers", "same", &transfer("alice", "alice", 5)).await;
        assert_eq!((same.status, same.code().as_deref()), (400, Some("same_account")));
        assert!(alice.rows("/transfers").await.is_empty());
        // What is refused before it runs leaves the key free.
        alice.post("/transfers", "k", &transfer("alice", "bob", 5)).await.assert_created(1);
    }

    async fn names_of_accounts_are_compared_byte_for_byte(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        alice.post("/transfers", "k", &transfer("alice", "Alice", 5)).await.assert_created(1);
        alice.post("/transfers", "l", &transfer("é", "e", 5)).await.assert_created(1);
        let expected = [("alice", 995), ("Alice", 1005), ("é", 995), ("e", 1005)];
        assert_eq!(balances(&alice).await, expected.map(|(name, balance)| (name.to_owned(), balance)).into());
    }

    async fn a_transfer_that_fails_leaves_nothing_and_may_be_tried_again(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        home.let_transfers_fail(13).await;
        let body = transfer("alice", "bob", 13);
        for _ in 0..2 {
            let failed = alice.post("/transfers", "k", &body).await;
            assert_eq!((failed.status, failed.code().as_deref()), (503, Some("ledger_unavailable")));
        }
        // Not even the accounts that it opened.
        assert_eq!(balances(&alice).await, [("alice".to_owned(), 1000)].into());
        assert_eq!(alice.post("/transfers", "k", &transfer("alice", "bob", 5)).await.status, 422, "bound");
        home.let_transfers_succeed().await;
        let third = alice.post("/transfers", "k", &body).await;
        third.assert_created(3);
        alice.post("/transfers", "k", &body).await.assert_replays(&third);
        assert_eq!(balances(&alice).await, two_accounts(987, 1013));
    }

    async fn a_duplicate_of_a_running_transfer_is_told_to_come_again(home) {
        let (one, two) = (Service::start(&home, &[]).await, Service::start(&home, &[]).await);
        let alice = one.caller("alice");
        home.slow_down(Step::Write).await;
        let body = transfer("alice", "bob", 5);
        // `begin` sees the 409 of a duplicate in the same process.
        let running = alice.begin_with("/transfers", "k", &body).await;
        home.somebody_dawdles().await;
        let (replay, _) = two.caller("alice").retry("/transfers", "k", &body).await;
        let first = running.answer().await;
        first.assert_created(1);
        replay.assert_replays(&first);
        assert_eq!(alice.rows("/transfers").await, [first.json()]);
    }

    async fn a_client_that_hangs_up_gets_its_transfer_all_the_same(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        home.slow_down(Step::Write).await;
        let body = transfer("alice", "bob", 5);
        let running = alice.begin_with("/transfers", "k", &body).await;
        home.somebody_dawdles().await;
        running.hang_up().await;
        let (replay, _) = alice.retry("/transfers", "k", &body).await;
        assert!(replay.status == 201 && replay.is_replay(), "{replay:?}");
        assert_eq!(alice.rows("/transfers").await, [replay.json()]);
    }

    async fn no_more_is_paid_than_there_is(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let mut tasks = tokio::task::JoinSet::new();
        for key in 0..30 {
            let alice = alice.clone();
            let body = transfer("alice", "bob", 90);
            tasks.spawn(async move { alice.post("/transfers", key.to_string().as_str(), &body).await.status });
        }
        let statuses = tasks.join_all().await;
        assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 11, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 402).count(), 19, "{statuses:?}");
        assert_eq!(balances(&alice).await, two_accounts(10, 1990));
    }
}

on_these_stores! { [memory redis] {
    async fn without_transactions_there_are_no_transfers(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let refused = alice.post("/transfers", "k", &transfer("alice", "bob", 5)).await;
        assert_eq!((refused.status, refused.code().as_deref()), (501, Some("not_implemented")));
        assert!(refused.json()["detail"].as_str().unwrap().contains("a store with transactions"));
        assert!(alice.rows("/transfers").await.is_empty());
        assert_eq!(balances(&alice).await, [("alice".to_owned(), 1000)].into());
    }
} }
