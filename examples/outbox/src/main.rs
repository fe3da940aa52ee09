//! A client that saves each request with its key before it sends it, and sends it until it is answered.
//!
//! Killed at any moment and started again, it goes on with the same keys, so that nothing is paid twice.
//!
//! ```sh
//! cargo run -p payments                                # the service, in another terminal
//! cargo run -p example-outbox -- 500000                # pays this amount, and whatever was left unanswered before
//! ```

use std::error::Error;
use std::path::Path;

use idem::client::{KeyedRequest, Retries, Sender};
use reqwest::header::CONTENT_TYPE;
use sqlx::SqlitePool;
use sqlx::sqlite::SqliteConnectOptions;

/// Requests that were decided upon, and what they were answered.
struct Outbox {
    rows: SqlitePool,
    service: String,
    http: reqwest::Client,
    sender: Sender,
}

impl Outbox {
    async fn open(file: &Path, service: &str, retries: Retries) -> Result<Self, Box<dyn Error>> {
        let options = SqliteConnectOptions::new().filename(file).create_if_missing(true);
        let rows = SqlitePool::connect_with(options).await?;
        // The body as it is sent: built anew it might differ, and a key belongs to one body.
        sqlx::query(
            "CREATE TABLE IF NOT EXISTS outbox
                 (number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, body TEXT NOT NULL, status INTEGER)",
        )
        .execute(&rows)
        .await?;
        let http = reqwest::Client::new();
        Ok(Self {
            rows,
            service: service.to_owned(),
            sender: Sender::new(http.clone()).retries(retries),
            http,
        })
    }

    /// Gives a payment its key and saves both. Nothing is sent yet.
    async fn decide(&self, amount: u64) -> Result<(), Box<dyn Error>> {
        let body =
            serde_json::json!({ "amount": amount, "currency": "vnd", "source": "tok_visa" }).to_string();
        let request = KeyedRequest::new(self.request(body.clone())?)?;
        sqlx::query("INSERT INTO outbox (key, body) VALUES (?, ?)")
            .bind(request.key())
            .bind(body)
            .execute(&self.rows)
            .await?;
        Ok(())
    }

    /// Sends what was not answered yet, each with the key that it has. Returns the statuses.
    async fn send(&self) -> Result<Vec<u16>, Box<dyn Error>> {
        let left: Vec<(i64, String, String)> =
            sqlx::query_as("SELECT number, key, body FROM outbox WHERE status IS NULL ORDER BY number")
                .fetch_all(&self.rows)
                .await?;
        let mut statuses = Vec::new();
        for (number, key, body) in left {
            let request = KeyedRequest::with_key(key, self.request(body)?)?;
            // An error leaves the row as it is: the next run goes on with it.
            let status = self.sender.send(&request).await?.status().as_u16();
            sqlx::query("UPDATE outbox SET status = ? WHERE number = ?")
                .bind(status)
                .bind(number)
                .execute(&self.rows)
                .await?;
            statuses.push(status);
        }
        Ok(statuses)
    }

    fn request(&self, body: String) -> Result<reqwest::Request, reqwest::Error> {
        let request = self.http.post(format!("{}/charges", self.service)).bearer_auth("alice");
        request.header(CONTENT_TYPE, "application/json").body(body).build()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let outbox = Outbox::open(Path::new("outbox.db"), "http://127.0.0.1:3000", Retries::default()).await?;
    if let Some(amount) = std::env::args().nth(1) {
        outbox.decide(amount.parse()?).await?;
    }
    for status in outbox.send().await? {
        println!("answered {status}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Duration;

    use axum::Router;
    use axum::extract::State;
    use axum::http::StatusCode;
    use axum::routing::post;
    use idem::axum::idempotent;
    use idem::{Idempotency, MemoryStore};
    use idem_testkit::{Fault, UnreliableWay};

    use super::*;

    #[derive(Clone)]
    struct Service {
        idem: Idempotency,
        charged: Arc<AtomicU32>,
    }

    #[idempotent(key = header, ttl = "24h", scope = shared, engine = service.idem)]
    async fn charge(State(service): State<Service>, _: String) -> StatusCode {
        service.charged.fetch_add(1, Ordering::SeqCst);
        StatusCode::CREATED
    }

    #[tokio::test]
    async fn a_payment_whose_answer_was_lost_is_not_made_again_by_the_next_process() {
        let service = Service { idem: Idempotency::new(MemoryStore::new()), charged: Arc::default() };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let routes = Router::new().route("/charges", post(charge)).with_state(service.clone());
        tokio::spawn(axum::serve(listener, routes).into_future());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("outbox.db");
        let hurried =
            Retries::default().first_wait(Duration::from_millis(5)).give_up_after(Duration::from_millis(300));

        // Everything is carried out, and no answer arrives: then this process ends.
        let way = UnreliableWay::to(&address, |_| Fault::LoseAnswer).await;
        let outbox =
            Outbox::open(&file, &format!("http://{}", way.address()), hurried.clone()).await.unwrap();
        outbox.decide(500_000).await.unwrap();
        outbox.send().await.unwrap_err();
        assert_eq!(service.charged.load(Ordering::SeqCst), 1);
        outbox.rows.close().await;

        let outbox = Outbox::open(&file, &format!("http://{address}"), hurried).await.unwrap();
        assert_eq!(outbox.send().await.unwrap(), [201]);
        assert_eq!(outbox.send().await.unwrap(), [0; 0], "it is answered");
        assert_eq!(service.charged.load(Ordering::SeqCst), 1);
        outbox.rows.close().await;
    }
}
