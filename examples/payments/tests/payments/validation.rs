//! What is refused before it is tried.

use serde_json::json;

use crate::home::{Home, fresh_key, on_each_store};
use crate::http::charge;
use crate::service::Service;

on_each_store! {
    async fn a_malformed_charge_is_refused_with_its_reason_and_leaves_the_key_free(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let key = fresh_key();
        for (field, value, reason) in [
            ("amount", json!(0), "a positive integer"),
            ("amount", json!(-5), "a positive integer"),
            ("amount", json!(1.5), "a positive integer"),
            ("amount", json!("5"), "a positive integer"),
            ("amount", json!(9_223_372_036_854_775_808_u64), "a positive integer"),
            ("amount", json!(null), "a positive integer"),
            ("currency", json!("dong"), "three letters"),
            ("currency", json!("₫"), "three letters"),
            ("source", json!("tok_unheard_of"), "no such source"),
            ("source", json!("tok_slow_soon"), "milliseconds"),
            ("description", json!(7), "string"),
            ("description", json!("a\u{0}b"), "NUL"),
            ("metadata", json!([]), "map"),
        ] {
            let mut body = charge("tok_visa");
            body[field] = value;
            let refused = alice.post("/charges", key.as_str(), &body).await;
            assert_eq!(refused.status, 422, "{body}: {refused:?}");
            assert!(refused.body.contains(field) && refused.body.contains(reason), "{body}: {refused:?}");
        }
        let refused = alice.post("/charges", key.as_str(), &json!({ "amount": 5 })).await;
        assert!(refused.status == 422 && refused.body.contains("missing field `currency`"), "{refused:?}");
        // Nothing was claimed, so the key is as good as new.
        alice.charge(&key, "tok_visa").await.assert_created(1);
        assert_eq!(alice.rows("/charges").await.len(), 1);
    }

    async fn fields_that_are_not_known_are_ignored_but_belong_to_the_request(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let mut body = charge("tok_visa");
        body["colour"] = json!("red");
        alice.post("/charges", "k", &body).await.assert_created(1);
        body["colour"] = json!("blue");
        assert_eq!(alice.post("/charges", "k", &body).await.code().as_deref(), Some("idempotency_conflict"));
    }

    async fn what_is_not_there_is_not_found(home) {
        let service = Service::start(&home, &[]).await;
        let alice = service.caller("alice");
        let ids = ["ch_0", "%00", "a%00b", "%F0%9F%A6%80", &"x".repeat(1_000)];
        let paths = ids.iter().flat_map(|id| {
            ["/charges/{}", "/charges/{}/refund", "/payouts/{}", "/transfers/{}"]
                .map(|path| path.replace("{}", id))
        });
        for path in paths {
            let missing = alice.get(&path).await;
            assert_eq!((missing.status, missing.code().as_deref()), (404, Some("not_found")), "{path}");
        }
        for id in ids {
            let refunded = alice.post(&format!("/charges/{id}/refund"), &id[..id.len().min(9)], &json!(null)).await;
            assert_eq!(refunded.status, 404, "{id}");
        }
    }
}
