//! An axum handler that runs once for each idempotency key.
//!
//! ```sh
//! cargo run -p example-axum-attribute
//! curl -i http://127.0.0.1:3000/orders -H 'Authorization: Bearer alice' -H 'Idempotency-Key: 1' \
//!   -H 'Content-Type: application/json' -d '{"article": "tea"}'
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::{Json, Router, routing::post};
use idem::axum::idempotent;
use idem::{Idempotency, MemoryStore};
use serde::{Deserialize, Serialize};

#[derive(Clone)]
struct App {
    idem: Idempotency,
    /// Stands for a database.
    orders: Arc<AtomicU64>,
}

/// Who is asking: the scope of keys. Somebody else's key 1 is another key.
struct User {
    name: String,
}

impl<S: Sync> FromRequestParts<S> for User {
    type Rejection = StatusCode;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, StatusCode> {
        let header = parts.headers.get(header::AUTHORIZATION).and_then(|header| header.to_str().ok());
        let name =
            header.and_then(|header| header.strip_prefix("Bearer ")).ok_or(StatusCode::UNAUTHORIZED)?;
        Ok(Self { name: name.to_owned() })
    }
}

#[derive(Deserialize)]
struct NewOrder {
    article: String,
}

#[derive(Serialize)]
struct Order {
    id: u64,
    article: String,
}

#[idempotent(key = header, ttl = "24h", scope = user.name, engine = app.idem)]
async fn create(State(app): State<App>, user: User, Json(new): Json<NewOrder>) -> (StatusCode, Json<Order>) {
    // What must not happen twice.
    let id = app.orders.fetch_add(1, Ordering::SeqCst) + 1;
    (StatusCode::CREATED, Json(Order { id, article: new.article }))
}

fn routes() -> Router {
    let app = App { idem: Idempotency::new(MemoryStore::new()), orders: Arc::default() };
    Router::new().route("/orders", post(create)).with_state(app)
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, routes()).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_order_that_is_sent_twice_is_made_once() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/orders", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, routes()).into_future());
        let http = reqwest::Client::new();
        let send = async |user: &str, article: &str| {
            let request = http.post(&url).bearer_auth(user).header("Idempotency-Key", "1");
            let response = request.json(&serde_json::json!({ "article": article })).send().await.unwrap();
            let replayed = response.headers().contains_key("idempotent-replayed");
            (response.status().as_u16(), replayed, response.text().await.unwrap())
        };
        let first = r#"{"id":1,"article":"tea"}"#.to_owned();
        assert_eq!(send("alice", "tea").await, (201, false, first.clone()));
        assert_eq!(send("alice", "tea").await, (201, true, first));
        assert_eq!(send("alice", "coffee").await.0, 422);
        assert_eq!(send("bob", "tea").await, (201, false, r#"{"id":2,"article":"tea"}"#.to_owned()));
    }
}
