//! Redis behind Sentinels, as a cluster, and over TLS.

use serde_json::json;

use crate::home::{Home, on_these_stores};
use crate::http::charge;
use crate::service::Service;

on_these_stores! { [sentinels cluster tls] {
    async fn records_and_ledger_are_there_and_outlive_the_service(home) {
        let mut service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let first = alice.post("/charges", "charge", &charge("tok_visa")).await;
        first.assert_created(1);
        let refund = format!("{}/refund", first.header("location").unwrap());
        let refunded = alice.post(&refund, "refund", &json!({})).await;
        let paid = alice.post("/payouts", "payout", &charge("tok_visa")).await;
        paid.assert_created(1);
        service.kill_9().await;

        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        alice.post("/charges", "charge", &charge("tok_visa")).await.assert_replays(&first);
        alice.post(&refund, "refund", &json!({})).await.assert_replays(&refunded);
        alice.post("/payouts", "payout", &charge("tok_visa")).await.assert_replays(&paid);
        assert_eq!(alice.rows("/charges").await, [first.json()]);
        assert_eq!(alice.rows("/payouts").await, [paid.json()]);
    }
} }
