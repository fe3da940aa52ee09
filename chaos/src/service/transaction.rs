//! Transactions: effects are rows that are committed together with claim and answer.

use axum::Json;
use axum::extract::State;
use axum::routing::{MethodRouter, post};
use idem::axum::idempotent;
use idem::{MySqlStore, PostgresStore, SqliteStore, Transactional};

use super::app::{App, Asked, Done, Failed, done};
use super::opened::Engine;

/// The route, on the database of this engine.
pub(super) fn create(app: &App) -> MethodRouter<App> {
    match &app.opened.engine {
        None => MethodRouter::new(),
        Some(Engine::Postgres(idem)) => {
            post(in_postgres).with_state(On { app: app.clone(), idem: idem.clone() })
        }
        Some(Engine::MySql(idem)) => post(in_mysql).with_state(On { app: app.clone(), idem: idem.clone() }),
        Some(Engine::Sqlite(idem)) => post(in_sqlite).with_state(On { app: app.clone(), idem: idem.clone() }),
    }
}

/// The application, with the engine that knows its database.
#[derive(Debug, Clone)]
struct On<I> {
    app: App,
    idem: I,
}

#[idempotent(key = header, ttl = ask.ttl(), scope = shared, engine = on.idem, operation = "chaos.transaction", transaction = tx)]
async fn in_postgres(
    State(on): State<On<Transactional<PostgresStore>>>,
    Json(ask): Asked,
) -> Result<Done, Failed> {
    let run = on.app.begin(&ask).await?;
    sqlx::query("INSERT INTO chaos_effects (run, begun) VALUES ($1, $2)")
        .bind(&run.id)
        .bind(run.begun as i64)
        .execute(&mut **tx)
        .await?;
    run.rest(&ask).await;
    Ok(done(&run.id, &ask))
}

#[idempotent(key = header, ttl = ask.ttl(), scope = shared, engine = on.idem, operation = "chaos.transaction", transaction = tx)]
async fn in_mysql(State(on): State<On<Transactional<MySqlStore>>>, Json(ask): Asked) -> Result<Done, Failed> {
    let run = on.app.begin(&ask).await?;
    sqlx::query("INSERT INTO chaos_effects (run, begun) VALUES (?, ?)")
        .bind(&run.id)
        .bind(run.begun as i64)
        .execute(&mut **tx)
        .await?;
    run.rest(&ask).await;
    Ok(done(&run.id, &ask))
}

#[idempotent(key = header, ttl = ask.ttl(), scope = shared, engine = on.idem, operation = "chaos.transaction", transaction = tx)]
async fn in_sqlite(
    State(on): State<On<Transactional<SqliteStore>>>,
    Json(ask): Asked,
) -> Result<Done, Failed> {
    let run = on.app.begin(&ask).await?;
    sqlx::query("INSERT INTO chaos_effects (run, begun) VALUES (?, ?)")
        .bind(&run.id)
        .bind(run.begun as i64)
        .execute(&mut **tx)
        .await?;
    run.rest(&ask).await;
    Ok(done(&run.id, &ask))
}
