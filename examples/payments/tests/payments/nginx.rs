//! nginx before two instances on one store, which asks the second when the first does not answer; requests that are not
//! idempotent by themselves, too.

use idem::client::{KeyedRequest, Response, Retries, Sender};
use idem_testkit::Nginx;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::home::{Home, on_these_stores};
use crate::http::{Caller, charge, until};
use crate::service::Service;

const OPTIONS: &[&str] = &["--lease", "2s"];

/// Two instances, and nginx before them, which asks `one` first.
struct Gateway {
    one: Service,
    two: Service,
    nginx: Nginx,
}

impl Gateway {
    async fn open(home: &Home) -> Self {
        let (one, two) = (Service::start(home, OPTIONS).await, Service::start(home, OPTIONS).await);
        let (first, second) = (one.address.clone(), two.address.clone());
        let nginx = tokio::task::spawn_blocking(move || Nginx::before(&[&first, &second])).await.unwrap();
        Self { one, two, nginx }
    }

    /// Alice, by way of nginx.
    fn alice(&self) -> Caller {
        Caller::new(&self.nginx.address(), "alice")
    }

    /// Sends a request of Alice's by way of nginx until it is answered.
    fn send(&self, path: &str, key: &str, body: &Value) -> impl Future<Output = Response> + Send + 'static {
        let http = reqwest::Client::new();
        let request = http.post(format!("http://{}{path}", self.nginx.address())).bearer_auth("alice");
        let request = KeyedRequest::with_key(key, request.json(body).build().unwrap()).unwrap();
        async move {
            let response = Sender::new(http).retries(Retries::default()).send(&request).await.unwrap();
            assert_eq!(response.status(), 201, "{response:?}");
            response
        }
    }
}

fn json(response: &Response) -> Value {
    serde_json::from_slice(response.body()).unwrap()
}

on_these_stores! { [sqlite postgres] {
    async fn an_instance_that_is_paused_in_the_middle_and_comes_back_has_charged_once(home) {
        let gateway = Gateway::open(&home).await;
        let two = gateway.two.caller("alice");
        let source = "tok_slowafter_900";
        let sent = gateway.alice().send("/charges", "k", source);
        until("the row", || async { (two.rows("/charges").await.len() == 1).then_some(()) }).await;
        gateway.one.pause();
        // nginx has waited for long enough, and the second instance says that the first one runs.
        let answer = sent.answer().await;
        assert!(answer.is_refused("idempotency_in_flight"), "{answer:?}");
        gateway.one.resume();
        let response = gateway.send("/charges", "k", &charge(source)).await;
        assert!(response.is_replayed(), "{response:?}");
        assert_eq!(two.rows("/charges").await, [json(&response)]);
        assert_eq!(json(&response)["attempt"], 1);
    }

    async fn an_instance_that_is_killed_before_it_charges_has_a_successor_that_charges_once(home) {
        let mut gateway = Gateway::open(&home).await;
        let running = gateway.alice().begin("/charges", "k", "tok_slow_900").await;
        gateway.one.kill_9().await;
        // nginx has asked the second instance, which waits for the lease of the first.
        let answer = running.answer().await;
        assert!(answer.is_refused("idempotency_in_flight"), "{answer:?}");
        let response = gateway.send("/charges", "k", &charge("tok_slow_900")).await;
        assert_eq!(json(&response)["attempt"], 2);
        assert_eq!(gateway.two.caller("alice").rows("/charges").await, [json(&response)]);
    }

    async fn an_instance_that_is_killed_under_load_pays_nothing_out_twice(home) {
        const PAYOUTS: usize = 100;
        let mut gateway = Gateway::open(&home).await;
        let two = gateway.two.caller("alice");
        let mut sent = JoinSet::new();
        for number in 0..PAYOUTS {
            let body = json!({ "amount": 5, "currency": "vnd", "source": "tok_slowafter_300", "description": number.to_string() });
            sent.spawn(gateway.send("/payouts", &format!("k{number}"), &body));
        }
        // Some have been paid out and not answered, others have not been begun.
        until("some rows", || async { (two.rows("/payouts").await.len() >= 5).then_some(()) }).await;
        gateway.one.kill_9().await;
        let mut paid: Vec<_> = sent.join_all().await.iter().map(|response| json(response)["id"].clone()).collect();
        let mut rows: Vec<_> = two.rows("/payouts").await.iter().map(|row| row["id"].clone()).collect();
        paid.sort_by_key(ToString::to_string);
        rows.sort_by_key(ToString::to_string);
        assert_eq!((rows.len(), &rows), (PAYOUTS, &paid));
    }
} }
