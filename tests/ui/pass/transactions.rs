//! Functions and handlers of every shape, in a transaction: they compile. `tests/transactions` runs them.

#![deny(warnings)]
#![allow(dead_code)]

use std::rc::Rc;
use std::sync::Arc;

use async_trait::async_trait;
use axum::extract::{FromRef, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect};
use axum::routing::{any, post};
use axum::{Json, Router};
use idem::axum::idempotent as handler;
use idem::{SqliteStore, Transactional, TransactionalStore, idempotent};
use serde::{Deserialize, Serialize};

/// Writes through a transaction, as a driver does.
async fn write<T>(_: &mut T, amount: u64) -> Result<u64, Refused> {
    if amount == 0 { Err(Refused) } else { Ok(amount) }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Refused;

impl From<idem::Error> for Refused {
    fn from(_: idem::Error) -> Self {
        Self
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> axum::response::Response {
        StatusCode::PAYMENT_REQUIRED.into_response()
    }
}

type Answer<T> = Result<T, Refused>;

trait Db: TransactionalStore + Clone {}

impl<S: TransactionalStore + Clone> Db for S {}

#[idempotent(key = id, ttl = "24h", engine = idem, operation = "owned", skip(idem), transaction = tx)]
async fn owned<S: Db + 'static>(id: u64, idem: Transactional<S>) -> Answer<u64> {
    write(tx, id).await?;
    write(&mut *tx, id).await
}

#[idempotent(key = id, ttl = "24h", engine = idem, operation = "borrowed", skip(idem), transaction = tx)]
async fn borrowed<S: Db>(id: &u64, idem: &Transactional<S>) -> Answer<u64> {
    let tx = &mut *tx;
    write(tx, *id).await
}

#[idempotent(key = id, ttl = "24h", engine = idem, operation = "pointed", skip(idem), transaction = r#try, lease = "5s")]
async fn pointed<S: Db + 'static>((id, mut amount): (u64, u64), idem: Arc<Transactional<S>>) -> Answer<u64> {
    amount += id;
    write(r#try, amount).await
}

#[idempotent(
    key = id, ttl = "24h", engine = idem, operation = "not send", skip(idem, rc), transaction = tx, inline, store_err,
    missing = run, in_flight = wait("1s"), on_disconnect = cancel
)]
async fn not_send<S: Db>(id: Option<u64>, idem: &Transactional<S>, rc: Rc<u64>) -> Answer<u64> {
    let amount = write(tx, id.unwrap_or(*rc)).await;
    tokio::task::yield_now().await;
    drop(rc);
    amount
}

#[idempotent(key = id, ttl = "24h", engine = &idem, operation = "detached", skip(idem, more), transaction = tx, detached)]
async fn detached<S: Db>(id: u64, idem: Transactional<S>, more: impl Send + 'static) -> Answer<u64> {
    let _more = more;
    write(tx, id).await
}

struct Service<S> {
    idem: Transactional<S>,
}

impl<S: Db> Service<S> {
    #[idempotent(key = id, ttl = "24h", engine = self.idem, operation = "method", transaction = tx)]
    async fn method(&self, id: u64) -> Answer<u64> {
        write(tx, id).await
    }

    #[idempotent(key = id, ttl = "24h", engine = self.idem, operation = "arc", transaction = tx)]
    async fn arc(self: Arc<Self>, id: u64) -> Answer<u64> {
        write(tx, id).await
    }
}

#[async_trait]
trait Ship {
    async fn ship(&self, id: u64, parts: (u8, u8)) -> Answer<u64>;
}

#[async_trait]
impl<S: Db> Ship for Service<S> {
    #[idempotent(key = (id, a), ttl = "24h", engine = self.idem, operation = "boxed", transaction = tx)]
    async fn ship(&self, id: u64, (a, _): (u8, u8)) -> Answer<u64> {
        write(tx, id).await
    }
}

#[derive(Clone)]
struct App<S> {
    idem: Transactional<S>,
}

impl<S: Clone> FromRef<App<S>> for Transactional<S> {
    fn from_ref(app: &App<S>) -> Self {
        app.idem.clone()
    }
}

#[derive(Deserialize)]
struct Wanted {
    amount: u64,
}

#[handler(key = header, ttl = "24h", scope = shared, engine = app.idem, operation = "h1", transaction = tx)]
async fn aliased<S: Db>(State(app): State<App<S>>, Json(wanted): Json<Wanted>) -> Answer<Json<u64>> {
    Ok(Json(write(tx, wanted.amount).await?))
}

#[handler(key = header("X-Key"), ttl = "24h", scope = shared, engine = idem, operation = "h2", transaction = tx)]
async fn opaque<S: Db>(
    State(idem): State<Transactional<S>>,
    Query(wanted): Query<Wanted>,
) -> impl IntoResponse {
    if write(tx, wanted.amount).await.is_err() {
        return Redirect::to("/").into_response();
    }
    "done".into_response()
}

#[handler(key = header, ttl = "24h", scope = shared, engine = idem, operation = "h3", transaction = tx)]
async fn half_opaque<S: Db>(
    State(idem): State<Transactional<S>>,
    body: String,
) -> Result<impl IntoResponse, Refused> {
    write(tx, body.len() as u64).await?;
    Ok((StatusCode::CREATED, body))
}

#[handler(key = header, ttl = "24h", scope = shared, engine = idem, operation = "h4", transaction = tx, inline)]
async fn nothing<S: Db>(State(idem): State<Transactional<S>>) {
    let _ = write(tx, 1).await;
}

#[handler(key = header, ttl = "24h", scope = shared, engine = idem, operation = "h5", transaction = tx)]
async fn never_there<S: Db>(State(idem): State<Transactional<S>>) -> impl IntoResponse {
    let _ = tx;
    if true {
        panic!("not yet")
    }
}

#[handler(key = header, ttl = "24h", scope = shared, engine = app.idem, transaction = tx)]
#[axum::debug_handler(state = App<SqliteStore>)]
async fn debugged_below(State(app): State<App<SqliteStore>>, body: String) -> Answer<String> {
    sqlx::query("SELECT 1").execute(&mut **tx).await.map_err(|_| Refused)?;
    Ok(body)
}

macro_rules! handlers {
    ($name:ident, $tx:ident, $ty:ty) => {
        #[handler(key = header, ttl = "24h", scope = shared, engine = idem, operation = "h6", transaction = $tx, store_if = |parts| parts.status.is_success())]
        async fn $name<S: Db>(State(idem): State<Transactional<S>>) -> $ty {
            Ok(write($tx, 1).await?.to_string())
        }
    };
}

handlers!(generated, tx, Answer<String>);

fn router<S: Db>() -> Router<App<S>> {
    Router::new()
        .route("/1", post(aliased::<S>))
        .route("/2", any(opaque::<S>))
        .route("/3", post(half_opaque::<S>))
        .route("/4", post(nothing::<S>))
        .route("/5", post(never_there::<S>))
        .route("/6", post(generated::<S>))
}

fn send<T: Send>(_: impl Fn() -> T) {}

/// What is not inline is `Send`, and so is what only borrows what is `Sync`.
fn all<S: Db + 'static>(idem: Transactional<S>) {
    send(|| owned(1, idem.clone()));
    send(|| pointed((1, 2), Arc::new(idem.clone())));
    send(|| detached(1, idem.clone(), 5));
    let service = Arc::new(Service { idem });
    send(|| service.method(1));
    send(|| service.clone().arc(1));
    send(|| service.ship(1, (1, 2)));
}
