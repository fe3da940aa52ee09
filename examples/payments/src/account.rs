//! Accounts, and what is in them.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
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

/// The name of an account: 1 to 64 bytes without blanks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, sqlx::Type)]
#[serde(try_from = "String")]
#[sqlx(transparent)]
pub struct AccountName(String);

impl TryFrom<String> for AccountName {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, &'static str> {
        let is_odd = |letter: char| letter.is_whitespace() || letter.is_control();
        if (1..=64).contains(&name.len()) && !name.contains(is_odd) {
            Ok(Self(name))
        } else {
            Err("the name of an account has 1 to 64 bytes and no blanks")
        }
    }
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
