//! Transfers: from one account to another, in one transaction with their answer.
//!
//! Accounts, claim and answer are in one database, so they can be committed together, or not at all: whatever crashes when,
//! each key moves its money once. The handler writes in a transaction that idem begins and ends, and so it is one of its
//! database. Read that of yours; it is all that a service needs. The others say the same in their SQL.

mod mysql;
mod postgres;
mod sqlite;

use axum::Json;
use axum::extract::{Path, State};
use axum::routing::{MethodRouter, post};
use serde::{Deserialize, Serialize};
use sqlx::FromRow;

use crate::account::AccountName;
use crate::app::App;
use crate::charges::{new_id, now};
use crate::money::Amount;
use crate::problem::Problem;
use crate::store::Engine;
use crate::user::User;

/// What a client asks for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferRequest {
    pub from: AccountName,
    pub to: AccountName,
    pub amount: Amount,
}

/// A transfer that happened: a row of the ledger.
#[derive(Debug, Clone, Serialize, FromRow)]
pub struct Transfer {
    pub id: String,
    /// Who asked for it. Anybody may move anybody's money: this is an example.
    pub account: String,
    #[sqlx(rename = "payer")]
    pub from: AccountName,
    #[sqlx(rename = "payee")]
    pub to: AccountName,
    pub amount: Amount,
    /// Which run of the request this is from: above 1 after a failure, but not after a crash, which leaves nothing.
    #[sqlx(try_from = "i64")]
    pub attempt: u32,
    /// Seconds since 1970.
    pub created: i64,
}

impl Transfer {
    /// What a request asks for.
    fn new(request: TransferRequest, user: User) -> Result<Self, Problem> {
        let TransferRequest { from, to, amount } = request;
        if from == to {
            return Err(Problem::same_account());
        }
        let run = idem::current().expect("an annotated handler has a run");
        let (account, attempt) = (user.account, run.attempt());
        Ok(Self { id: new_id("tr"), account, from, to, amount, attempt, created: now() })
    }

    /// Its accounts in the order in which everybody locks them: then two transfers cannot wait for each other.
    fn accounts(&self) -> [&AccountName; 2] {
        let mut accounts = [&self.from, &self.to];
        accounts.sort();
        accounts
    }

    fn location(&self) -> String {
        format!("/transfers/{}", self.id)
    }
}

/// `POST /transfers`, on the database of this engine.
pub fn create(engine: &Engine) -> MethodRouter<App> {
    match engine {
        Engine::Memory(_) | Engine::Redis(..) => post(not_here),
        Engine::Sqlite(idem) => post(sqlite::create).with_state(idem.clone()),
        Engine::Postgres(idem) => post(postgres::create).with_state(idem.clone()),
        Engine::MySql(idem) => post(mysql::create).with_state(idem.clone()),
    }
}

async fn not_here(_: User) -> Problem {
    Problem::not_implemented(
        "Transfers need a store with transactions: SQLite, PostgreSQL, MySQL or MariaDB.",
    )
}

/// `GET /transfers`: those that the caller asked for.
pub async fn list(State(app): State<App>, user: User) -> Result<Json<Vec<Transfer>>, Problem> {
    Ok(Json(app.ledger.transfers(&user.account).await?))
}

/// `GET /transfers/{id}`
pub async fn show(
    State(app): State<App>,
    user: User,
    Path(id): Path<String>,
) -> Result<Json<Transfer>, Problem> {
    let transfer = app.ledger.find_transfer(&user.account, &id).await?;
    transfer.map(Json).ok_or(Problem::no_such("This account has asked for no such transfer."))
}
