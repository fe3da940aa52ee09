//! Accounts, and what is in them.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use sqlx::FromRow;

use crate::app::App;
use crate::problem::Problem;
use crate::user::User;

/// An account.
#[derive(Debug, Clone, Serialize, FromRow)]
pub struct Account {
    pub account: String,
    pub balance: i64,
}

impl Account {
    /// Opens an account; everybody starts with 1000.
    pub fn open(account: String) -> Self {
        Self { account, balance: 1000 }
    }
}

/// `GET /accounts`: those that took part in a transfer, and the caller's.
pub async fn list(State(app): State<App>, user: User) -> Result<Json<Vec<Account>>, Problem> {
    let mut accounts = app.ledger.accounts().await?;
    if !accounts.iter().any(|there| there.account == user.account) {
        accounts.push(Account::open(user.account));
    }
    Ok(Json(accounts))
}
