//! Handlers: one for each guarantee.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use idem::axum::idempotent;

use super::app::{App, Ask, Asked, Done, Failed, done};
use super::{Broken, transaction};
use crate::history::Operation;

pub(super) fn routes(app: App) -> Router {
    let routes = Router::new().route("/rows", get(rows));
    let routes = if app.broken == Broken::WithoutIdem {
        routes.route("/{operation}", post(without_idem))
    } else {
        routes
            .route("/plain", post(plain))
            .route("/derived", post(derived))
            .route("/reject", post(reject))
            .route("/transaction", transaction::create(&app))
    };
    routes.with_state(app)
}

/// Lease mode, with an effect that nobody else protects.
#[idempotent(key = header, ttl = ask.ttl(), scope = shared, engine = app.idem)]
async fn plain(State(app): State<App>, Json(ask): Asked) -> Result<Done, Failed> {
    work(&app, &ask).await
}

/// Lease mode that never runs again.
#[idempotent(key = header, ttl = ask.ttl(), scope = shared, engine = app.idem, on_crash = reject)]
async fn reject(State(app): State<App>, Json(ask): Asked) -> Result<Done, Failed> {
    work(&app, &ask).await
}

/// Lease mode, with a system behind it that takes a key.
#[idempotent(key = header, ttl = ask.ttl(), scope = shared, engine = app.idem)]
async fn derived(State(app): State<App>, Json(ask): Asked) -> Result<Done, Failed> {
    let derived = idem::current().map(|run| run.derive("pay")).ok_or(Failed)?;
    pay(&app, &ask, derived).await
}

/// What handlers would do without idem: for the checker to find.
async fn without_idem(
    State(app): State<App>,
    Path(_): Path<String>,
    Json(ask): Asked,
) -> Result<Done, Failed> {
    match ask.key.operation {
        Operation::Derived => {
            let another = format!("{}-{}", ask.key.name, crate::clock::now());
            pay(&app, &ask, another).await
        }
        _ => work(&app, &ask).await,
    }
}

async fn work(app: &App, ask: &Ask) -> Result<Done, Failed> {
    let run = app.begin(ask).await?;
    run.effect();
    run.rest(ask).await;
    Ok(done(&run.id, ask))
}

async fn pay(app: &App, ask: &Ask, derived: String) -> Result<Done, Failed> {
    let mut run = app.begin(ask).await?;
    run.failed = true;
    let paid = app.pay(ask, derived).await?;
    run.effect();
    run.failed = false;
    run.rest(ask).await;
    Ok(done(&paid, ask))
}

/// What transactions have committed.
async fn rows(State(app): State<App>) -> Result<Json<Vec<(String, i64)>>, StatusCode> {
    match app.opened.ledger.rows().await {
        Ok(rows) => Ok(Json(rows)),
        Err(_) => Err(StatusCode::SERVICE_UNAVAILABLE),
    }
}
