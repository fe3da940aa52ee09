//! A transfer whose writes are committed together with its answer, on PostgreSQL.
//!
//! ```sh
//! DATABASE_URL=postgres://localhost/bank cargo run -p example-transaction
//! curl -i http://127.0.0.1:3000/transfers -H 'Idempotency-Key: 1' \
//!   -H 'Content-Type: application/json' -d '{"from": "alice", "to": "bob", "amount": 300}'
//! ```

use std::error::Error;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Json, Router, routing::post};
use idem::axum::idempotent;
use idem::{PostgresStore, Transactional};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;

type Engine = Transactional<PostgresStore>;

#[derive(Deserialize, Serialize)]
struct Transfer {
    from: String,
    to: String,
    amount: i64,
}

struct Failed(StatusCode);

impl From<sqlx::Error> for Failed {
    fn from(_: sqlx::Error) -> Self {
        // A 5xx is not stored: its writes are undone, and a retry runs again.
        Self(StatusCode::SERVICE_UNAVAILABLE)
    }
}

impl axum::response::IntoResponse for Failed {
    fn into_response(self) -> axum::response::Response {
        self.0.into_response()
    }
}

/// What is written by `tx` is there when the answer is there, and not before. Killed at any moment, the transfer has
/// happened with its answer, or not at all.
#[idempotent(key = header, ttl = "24h", scope = shared, engine = idem, transaction = tx)]
async fn create(
    State(idem): State<Engine>,
    Json(transfer): Json<Transfer>,
) -> Result<(StatusCode, Json<Transfer>), Failed> {
    let paid = sqlx::query("UPDATE accounts SET balance = balance - $1 WHERE name = $2 AND balance >= $1")
        .bind(transfer.amount)
        .bind(&transfer.from)
        .execute(&mut **tx)
        .await?;
    if paid.rows_affected() == 0 {
        // A decline is stored and replayed; what was written before it is undone.
        return Err(Failed(StatusCode::PAYMENT_REQUIRED));
    }
    sqlx::query("UPDATE accounts SET balance = balance + $1 WHERE name = $2")
        .bind(transfer.amount)
        .bind(&transfer.to)
        .execute(&mut **tx)
        .await?;
    Ok((StatusCode::CREATED, Json(transfer)))
}

/// Opens the database, with two accounts in it.
async fn open(url: &str) -> Result<Router, Box<dyn Error>> {
    let bank = PgPool::connect(url).await?;
    sqlx::query(
        "CREATE TABLE IF NOT EXISTS accounts (name text PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0))",
    )
    .execute(&bank)
    .await?;
    sqlx::query("INSERT INTO accounts VALUES ('alice', 1000), ('bob', 1000) ON CONFLICT DO NOTHING")
        .execute(&bank)
        .await?;
    bank.close().await;
    let engine = Transactional::new(PostgresStore::open(url).await?);
    Ok(Router::new().route("/transfers", post(create)).with_state(engine))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("DATABASE_URL")
        .map_err(|_| "set DATABASE_URL, for example to postgres://localhost/bank")?;
    let routes = open(&url).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, routes).await?)
}

#[cfg(test)]
mod tests {
    use idem_testkit::PostgresServer;

    use super::*;

    #[tokio::test]
    async fn a_transfer_that_is_sent_twice_moves_the_money_once() {
        let server = tokio::task::spawn_blocking(PostgresServer::shared).await.unwrap();
        let database = server.database().await;
        let routes = open(database.url()).await.unwrap();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/transfers", listener.local_addr().unwrap());
        tokio::spawn(axum::serve(listener, routes).into_future());
        let http = reqwest::Client::new();
        let send = async |key: &str, amount: i64| {
            let transfer = Transfer { from: "alice".into(), to: "bob".into(), amount };
            let request = http.post(&url).header("Idempotency-Key", key).json(&transfer);
            let response = request.send().await.unwrap();
            (response.status().as_u16(), response.headers().contains_key("idempotent-replayed"))
        };
        assert_eq!(send("1", 300).await, (201, false));
        assert_eq!(send("1", 300).await, (201, true));
        // 700 are left.
        assert_eq!(send("2", 800).await, (402, false));
        assert_eq!(send("2", 800).await, (402, true));

        let bank = PgPool::connect(database.url()).await.unwrap();
        let balances: Vec<i64> =
            sqlx::query_scalar("SELECT balance FROM accounts ORDER BY name").fetch_all(&bank).await.unwrap();
        assert_eq!(balances, [700, 1300]);
        bank.close().await;
    }
}
