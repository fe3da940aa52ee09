//! A layer that makes the requests to a whole axum router happen once; its handlers do not know of it.
//!
//! ```sh
//! cargo run -p example-axum-layer
//! curl -i http://127.0.0.1:3000/orders -H 'Authorization: Bearer alice' -H 'Idempotency-Key: 1' \
//!   -H 'Content-Type: application/json' -d '{"article": "tea"}'
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use idem::tower::IdempotencyLayer;
use idem::{Idempotency, MemoryStore};
use serde::Deserialize;

/// Stands for a database: how much was done.
type Done = Arc<AtomicU64>;

#[derive(Clone)]
struct User {
    name: String,
}

#[derive(Deserialize)]
struct NewOrder {
    article: String,
}

async fn order(State(done): State<Done>, Json(new): Json<NewOrder>) -> (StatusCode, String) {
    let number = done.fetch_add(1, Ordering::SeqCst) + 1;
    (StatusCode::CREATED, format!("order {number}: {}", new.article))
}

async fn cancel(State(done): State<Done>, Path(number): Path<u64>) -> String {
    done.fetch_add(1, Ordering::SeqCst);
    format!("order {number} is cancelled")
}

async fn search(State(done): State<Done>) -> String {
    done.fetch_add(1, Ordering::SeqCst);
    "nothing found".to_owned()
}

/// Finds out who is asking. Whoever is not let in does not get as far as idem.
async fn authenticate(mut request: Request, next: Next) -> Result<Response, StatusCode> {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|header| header.to_str().ok());
    let name = header.and_then(|header| header.strip_prefix("Bearer ")).ok_or(StatusCode::UNAUTHORIZED)?;
    let user = User { name: name.to_owned() };
    request.extensions_mut().insert(user);
    Ok(next.run(request).await)
}

fn routes() -> Router {
    let idem = Idempotency::new(MemoryStore::new());
    let once = IdempotencyLayer::new(&idem)
        .routes("shop")
        .scope_of(|user: &User| user.name.clone())
        .call(|call, _| call.ttl(Duration::from_hours(24)))
        // A search changes nothing, although it is a POST.
        .except(|request| request.uri.path() == "/search");
    Router::new()
        .route("/orders", post(order))
        .route("/orders/{number}/cancel", post(cancel))
        .route("/search", post(search))
        .layer(once)
        // Layers that are added later are outside: who asks is known before idem is asked.
        .layer(from_fn(authenticate))
        .with_state(Done::default())
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
    async fn whatever_is_sent_twice_to_the_router_is_done_once() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, routes()).into_future());
        let http = reqwest::Client::new();
        let send = async |path: &str, key: Option<&str>| {
            let mut request = http.post(format!("{url}{path}")).bearer_auth("alice");
            if let Some(key) = key {
                request = request.header("Idempotency-Key", key);
            }
            let response = request.json(&serde_json::json!({ "article": "tea" })).send().await.unwrap();
            let replayed = response.headers().contains_key("idempotent-replayed");
            (response.status().as_u16(), replayed, response.text().await.unwrap())
        };
        assert_eq!(send("/orders", Some("1")).await, (201, false, "order 1: tea".to_owned()));
        assert_eq!(send("/orders", Some("1")).await, (201, true, "order 1: tea".to_owned()));
        // Another operation, so another key; one that is not protected needs none.
        assert_eq!(
            send("/orders/1/cancel", Some("1")).await,
            (200, false, "order 1 is cancelled".to_owned())
        );
        assert_eq!(send("/orders/1/cancel", Some("1")).await, (200, true, "order 1 is cancelled".to_owned()));
        assert_eq!(send("/search", None).await.0, 200);
        assert_eq!(send("/orders", None).await.0, 400);
        let stranger =
            http.post(format!("{url}/orders")).header("Idempotency-Key", "1").send().await.unwrap();
        assert_eq!(stranger.status(), 401);
    }
}
