//! An application of actix-web: a middleware makes its requests happen once, an attribute says more of one handler.
//!
//! ```sh
//! cargo run -p example-actix
//! curl -i http://127.0.0.1:3000/orders -H 'Authorization: Bearer alice' -H 'Idempotency-Key: 1' \
//!   -H 'Content-Type: application/json' -d '{"article": "tea"}'
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use actix_web::body::MessageBody;
use actix_web::dev::{ServiceRequest, ServiceResponse};
use actix_web::error::ErrorUnauthorized;
use actix_web::http::header;
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{Data, Json, Path, ReqData, ServiceConfig, post, scope};
use actix_web::{App, Error, HttpMessage as _, HttpResponse, HttpServer, Responder};
use idem::actix::{IdempotencyMiddleware, idempotent};
use idem::{Idempotency, MemoryStore};
use serde::Deserialize;

/// Stands for a database: how much was done.
type Done = AtomicU64;

#[derive(Clone)]
struct User {
    name: String,
}

#[derive(Deserialize)]
struct NewOrder {
    article: String,
}

async fn order(done: Data<Done>, new: Json<NewOrder>) -> impl Responder {
    let number = done.fetch_add(1, Ordering::SeqCst) + 1;
    HttpResponse::Created().body(format!("order {number}: {}", new.article))
}

async fn cancel(done: Data<Done>, number: Path<u64>) -> String {
    done.fetch_add(1, Ordering::SeqCst);
    format!("order {number} is cancelled")
}

/// A route of its own, without the middleware: what is special about it is said where it stands.
#[idempotent(key = header, ttl = "7d", scope = user.name, engine = idem, on_crash = reject)]
async fn pay_out(idem: Data<Idempotency>, user: ReqData<User>, done: Data<Done>) -> impl Responder {
    done.fetch_add(1, Ordering::SeqCst);
    HttpResponse::Created().body(format!("{} is paid", user.name))
}

/// Finds out who is asking. Whoever is not let in does not get as far as idem.
async fn authenticate(
    request: ServiceRequest,
    next: Next<impl MessageBody>,
) -> Result<ServiceResponse<impl MessageBody>, Error> {
    let header = request.headers().get(header::AUTHORIZATION).and_then(|header| header.to_str().ok());
    let name = header.and_then(|header| header.strip_prefix("Bearer ")).map(str::to_owned);
    let user = User { name: name.ok_or_else(|| ErrorUnauthorized("who are you?"))? };
    request.extensions_mut().insert(user);
    next.call(request).await
}

/// The routes of each worker, over what all of them share.
fn routes() -> impl Fn(&mut ServiceConfig) + Clone + Send + 'static {
    let idem = Idempotency::new(MemoryStore::new());
    let done = Data::new(Done::default());
    let once = IdempotencyMiddleware::new(&idem)
        .routes("shop")
        .scope_of(|user: &User| user.name.clone())
        .call(|call, _, _| call.ttl(Duration::from_hours(24)));
    let idem = Data::new(idem);
    move |config| {
        let orders = scope("/orders")
            .route("", post().to(order))
            .route("/{number}/cancel", post().to(cancel))
            .wrap(once.clone());
        let all = scope("").service(orders).route("/payouts", post().to(pay_out));
        // What is wrapped around is outside: who asks is known before idem is asked.
        config.app_data(idem.clone()).app_data(done.clone()).service(all.wrap(from_fn(authenticate)));
    }
}

#[actix_web::main]
async fn main() -> std::io::Result<()> {
    let routes = routes();
    let server = HttpServer::new(move || App::new().configure(routes.clone())).bind(("127.0.0.1", 3000))?;
    println!("listening on http://{}", server.addrs()[0]);
    server.run().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[actix_web::test]
    async fn whatever_is_sent_twice_is_done_once() {
        let routes = routes();
        let app = move || App::new().configure(routes.clone());
        let server = HttpServer::new(app).workers(2).disable_signals().bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", server.addrs()[0]);
        let server = server.run();
        let handle = server.handle();
        let running = actix_web::rt::spawn(server);
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
        // Another operation, so another key.
        let cancelled = "order 1 is cancelled".to_owned();
        assert_eq!(send("/orders/1/cancel", Some("1")).await, (200, false, cancelled.clone()));
        assert_eq!(send("/orders/1/cancel", Some("1")).await, (200, true, cancelled));
        assert_eq!(send("/payouts", Some("1")).await, (201, false, "alice is paid".to_owned()));
        assert_eq!(send("/payouts", Some("1")).await, (201, true, "alice is paid".to_owned()));
        for path in ["/orders", "/payouts"] {
            assert_eq!(send(path, None).await.0, 400);
        }
        let stranger =
            http.post(format!("{url}/orders")).header("Idempotency-Key", "1").send().await.unwrap();
        assert_eq!(stranger.status(), 401);
        handle.stop(true).await;
        running.await.unwrap().unwrap();
    }
}
