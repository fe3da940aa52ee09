//! One request and its retries.

use serde_json::json;

use crate::home::{Home, fresh_key, on_each_store};
use crate::http::charge;
use crate::service::Service;

on_each_store! {
    async fn a_retry_replays_the_first_answer_and_charges_once(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let order = json!({
            "amount": 9_223_372_036_854_775_807_i64, "currency": "vnd", "source": "tok_visa",
            "description": "bánh mì", "metadata": { "order": 7, "note": "no onions" },
        });
        let first = alice.post("/charges", "order-7", &order).await;
        first.assert_created(1);
        let made = first.json();
        for (field, value) in order.as_object().unwrap() {
            assert_eq!(&made[field], value, "{field}");
        }
        assert_eq!(made["account"], "alice");
        assert!(made["created"].as_i64().unwrap() > 0);

        let location = first.header("location").unwrap();
        assert_eq!(location, format!("/charges/{}", made["id"].as_str().unwrap()));
        assert_eq!(alice.get(location).await.json(), made);

        for _ in 0..3 {
            alice.post("/charges", "order-7", &order).await.assert_replays(&first);
        }
        assert_eq!(alice.rows("/charges").await, [made]);
    }

    async fn member_order_and_white_space_do_not_make_another_request(home) {
        let service = Service::start(&home, &[]).await;
        let send = |body: &'static str| {
            let request = reqwest::Client::new()
                .post(format!("http://{}/charges", service.address))
                .bearer_auth("alice")
                .header("Content-Type", "application/json; charset=utf-8")
                .header("Idempotency-Key", "\"order-1\"")
                .body(body);
            async move { request.send().await.unwrap() }
        };
        let first = send(r#"{"amount":5,"currency":"vnd","source":"tok_visa"}"#).await;
        let second = send(r#"{ "source": "tok_\u0076isa", "currency": "vnd", "amount": 5 }"#).await;
        assert_eq!((first.status().as_u16(), second.status().as_u16()), (201, 201));
        assert!(second.headers().contains_key("idempotent-replayed"));
        assert_eq!(first.bytes().await.unwrap(), second.bytes().await.unwrap());
        // The bare form names the same key.
        let alice = service.caller("alice");
        let body = json!({ "amount": 5, "currency": "vnd", "source": "tok_visa" });
        assert!(alice.post("/charges", "order-1", &body).await.is_replay());
        assert_eq!(alice.rows("/charges").await.len(), 1);
    }

    async fn another_payload_under_a_used_key_is_refused(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let first = alice.charge("k", "tok_visa").await;
        let other = json!({ "amount": 500_001, "currency": "vnd", "source": "tok_visa" });
        let refused = alice.post("/charges", "k", &other).await;
        assert_eq!((refused.status, refused.code().as_deref()), (422, Some("idempotency_conflict")));
        assert_eq!(refused.header("retry-after"), None);
        alice.charge("k", "tok_visa").await.assert_replays(&first);
        assert_eq!(alice.rows("/charges").await.len(), 1);
    }

    async fn another_payload_is_refused_while_the_first_runs(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let running = alice.begin("/charges", "k", "tok_slow_1000").await;
        let refused = alice.charge("k", "tok_visa").await;
        assert_eq!((refused.status, refused.code().as_deref()), (422, Some("idempotency_conflict")));
        running.answer().await.assert_created(1);
        assert_eq!(alice.rows("/charges").await.len(), 1);
    }

    async fn a_charge_without_a_key_is_refused(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let refused = alice.post("/charges", None, &charge("tok_visa")).await;
        assert_eq!((refused.status, refused.code().as_deref()), (400, Some("idempotency_key_required")));
        let refused = alice.charge("a key with \"", "tok_visa").await;
        assert_eq!((refused.status, refused.code().as_deref()), (400, Some("idempotency_key_invalid")));
        assert!(alice.rows("/charges").await.is_empty());
    }

    async fn a_duplicate_of_a_running_charge_is_told_to_come_again(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        // `begin` sees the 409 with its Retry-After.
        let running = alice.begin("/charges", "k", "tok_slow_500").await;
        let (replay, _) = alice.retry("/charges", "k", &charge("tok_slow_500")).await;
        let first = running.answer().await;
        first.assert_created(1);
        replay.assert_replays(&first);
    }

    async fn a_charge_may_take_much_longer_than_its_lease(home) {
        let service = Service::start(&home, &["--lease", "1s"]).await;
        let alice = service.caller("alice");
        let running = alice.begin("/charges", "k", "tok_slow_5000").await;
        // All the time it is 409, though five leases have gone by.
        let (replay, refused) = alice.retry("/charges", "k", &charge("tok_slow_5000")).await;
        assert!(refused > 0);
        let first = running.answer().await;
        first.assert_created(1);
        replay.assert_replays(&first);
        assert_eq!(alice.rows("/charges").await, [first.json()]);
    }

    async fn a_duplicate_may_wait_for_the_first_and_gets_its_answer(home) {
        let service = Service::start(&home, &["--wait", "30s"]).await;
        let alice = service.caller("alice");
        let send = || alice.send("/charges", "k", "tok_slow_500");
        let (one, two) = (send(), send());
        let (one, two) = (one.answer().await, two.answer().await);
        let (first, second) = if one.is_replay() { (two, one) } else { (one, two) };
        first.assert_created(1);
        second.assert_replays(&first);
        assert_eq!(alice.rows("/charges").await.len(), 1);
    }

    async fn a_decline_is_replayed_and_never_turns_into_a_charge(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let first = alice.charge("k", "tok_chargeDeclined").await;
        assert_eq!((first.status, first.code().as_deref()), (402, Some("card_declined")));
        assert!(!first.is_replay());
        alice.charge("k", "tok_chargeDeclined").await.assert_replays(&first);
        assert!(alice.rows("/charges").await.is_empty());
    }

    async fn a_server_error_is_not_stored_but_binds_the_key_to_its_payload(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        for _ in 0..3 {
            let failed = alice.charge("k", "tok_processingError").await;
            assert_eq!((failed.status, failed.code().as_deref()), (500, Some("processing_error")));
            assert!(!failed.is_replay());
        }
        assert_eq!(alice.charge("k", "tok_visa").await.status, 422);
        assert!(alice.rows("/charges").await.is_empty());
    }

    async fn a_retry_of_a_flaky_charge_succeeds_as_the_second_attempt(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        assert_eq!(alice.charge("k", "tok_flaky").await.status, 500);
        let second = alice.charge("k", "tok_flaky").await;
        second.assert_created(2);
        alice.charge("k", "tok_flaky").await.assert_replays(&second);
        assert_eq!(alice.rows("/charges").await, [second.json()]);
    }

    async fn a_panic_is_answered_and_frees_the_key_at_once(home) {
        let service = Service::start(&home, &["--lease", "1h"]).await;
        let alice = service.caller("alice");
        for _ in 0..2 {
            let failed = alice.charge("k", "tok_panic").await;
            assert_eq!((failed.status, failed.code().as_deref()), (500, Some("internal_error")));
        }
        assert_eq!(alice.charge("k", "tok_visa").await.status, 422, "free, but bound");
        assert_eq!(alice.charge("other", "tok_visa").await.status, 201, "and the service goes on");
    }

    async fn a_charge_is_refunded_once(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let charge = alice.charge("c", "tok_visa").await;
        let path = format!("{}/refund", charge.header("location").unwrap());
        let first = alice.post(&path, "r", &json!(null)).await;
        first.assert_created(1);
        assert_eq!(first.json()["charge"], charge.json()["id"]);
        assert_eq!(first.json()["amount"], 500_000);
        assert_eq!(alice.get(first.header("location").unwrap()).await.json(), first.json());
        alice.post(&path, "r", &json!(null)).await.assert_replays(&first);

        let again = alice.post(&path, "another-key", &json!(null)).await;
        assert_eq!((again.status, again.code().as_deref()), (400, Some("already_refunded")));
        let nobodys = service.caller("bob").post(&path, "r", &json!(null)).await;
        assert_eq!(nobodys.status, 404);
    }

    async fn a_payout_is_paid_once_for_a_key(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let first = alice.post("/payouts", "k", &charge("tok_visa")).await;
        first.assert_created(1);
        assert_eq!(alice.get(first.header("location").unwrap()).await.json(), first.json());
        alice.post("/payouts", "k", &charge("tok_visa")).await.assert_replays(&first);
        // Another operation under the same key is another record.
        alice.post("/charges", "k", &charge("tok_visa")).await.assert_created(1);
        assert_eq!(alice.rows("/payouts").await, [first.json()]);
        assert_eq!(alice.post("/payouts", "d", &charge("tok_chargeDeclined")).await.status, 402);
        assert_eq!(alice.post("/payouts", "f", &charge("tok_flaky")).await.status, 500);
        alice.post("/payouts", "f", &charge("tok_flaky")).await.assert_created(2);
        assert_eq!(alice.rows("/payouts").await.len(), 2);
    }

    async fn who_is_unknown_is_refused_before_anything_is_claimed(home) {
        let service = Service::start(&home, &[]).await;
        let nobody = service.caller("").anonymous();
        for path in ["/charges", "/payouts", "/charges/x/refund", "/transfers"] {
            let refused = nobody.post(path, "k", &charge("tok_visa")).await;
            assert_eq!((refused.status, refused.code().as_deref()), (401, Some("unauthorized")), "{path}");
            assert_eq!(refused.header("www-authenticate"), Some("Bearer"));
        }
        for path in ["/charges", "/charges/x", "/payouts", "/accounts"] {
            assert_eq!(nobody.get(path).await.status, 401, "{path}");
        }
        // Not even a malformed key, a missing one or a malformed body comes first.
        assert_eq!(nobody.post("/charges", None, &json!([])).await.status, 401);
        assert_eq!(nobody.post("/charges", "\"", &json!([])).await.status, 401);
        // A replay is not for those who have lost access.
        let alice = service.caller("alice");
        alice.charge("k", "tok_visa").await.assert_created(1);
        assert_eq!(alice.clone().anonymous().charge("k", "tok_visa").await.status, 401);
        assert_eq!(nobody.get("/healthz").await.status, 200);
    }

    async fn a_rotated_token_still_replays(home) {
        let service = Service::start(&home, &[]).await;
        let first = service.caller("alice.token-1").charge("k", "tok_visa").await;
        first.assert_created(1);
        service.caller("alice.token-2").charge("k", "tok_visa").await.assert_replays(&first);
        service.caller("alice").charge("k", "tok_visa").await.assert_replays(&first);
    }

    async fn two_accounts_may_use_the_same_key(home) {
        let service = Service::start(&home, &[]).await;
        let (alice, bob) = (service.caller("alice"), service.caller("bob"));
        let key = fresh_key();
        let hers = alice.charge(&key, "tok_visa").await;
        // Neither a replay nor, for another payload, a mismatch.
        let another = json!({ "amount": 1, "currency": "eur", "source": "tok_visa" });
        let his = bob.post("/charges", key.as_str(), &another).await;
        hers.assert_created(1);
        his.assert_created(1);
        assert_eq!(alice.rows("/charges").await, [hers.json()]);
        assert_eq!(bob.rows("/charges").await, [his.json()]);
        assert_eq!(bob.get(hers.header("location").unwrap()).await.status, 404);
    }
}
