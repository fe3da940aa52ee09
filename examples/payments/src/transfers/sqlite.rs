//! Transfers in SQLite.

use axum::Json;
use axum::extract::State;
use idem::axum::idempotent;
use idem::{SqliteStore, Transactional};

use super::{Transfer, TransferRequest};
use crate::created::Created;
use crate::problem::Problem;
use crate::user::User;

/// `POST /transfers`
///
/// idem has claimed the key in `tx` and will add the answer to it and commit. An `Err` undoes what is written here; if it is
/// a decline, that is committed alone, and replayed. A retry after a crash finds nothing and runs again, or all of it and
/// gets the stored answer.
#[idempotent(key = header, ttl = "24h", scope = user.account, engine = idem, transaction = tx)]
pub async fn create(
    State(idem): State<Transactional<SqliteStore>>,
    user: User,
    Json(request): Json<TransferRequest>,
) -> Result<Created<Transfer>, Problem> {
    let transfer = Transfer::new(request, user)?;
    let [first, second] = transfer.accounts();
    // Opens those that are new. The whole file is locked: `tx` is the only writer.
    sqlx::query(
        "INSERT INTO accounts (account, balance) VALUES (?, 1000), (?, 1000)
         ON CONFLICT (account) DO NOTHING",
    )
    .bind(first)
    .bind(second)
    .execute(&mut **tx)
    .await?;
    let paid = sqlx::query("UPDATE accounts SET balance = balance - ? WHERE account = ? AND balance >= ?")
        .bind(transfer.amount)
        .bind(&transfer.from)
        .bind(transfer.amount)
        .execute(&mut **tx)
        .await?;
    if paid.rows_affected() == 0 {
        return Err(Problem::insufficient_funds());
    }
    sqlx::query("UPDATE accounts SET balance = balance + ? WHERE account = ?")
        .bind(transfer.amount)
        .bind(&transfer.to)
        .execute(&mut **tx)
        .await?;
    sqlx::query(
        "INSERT INTO transfers (id, account, payer, payee, amount, attempt, created)
         VALUES (?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(&transfer.id)
    .bind(&transfer.account)
    .bind(&transfer.from)
    .bind(&transfer.to)
    .bind(transfer.amount)
    .bind(transfer.attempt)
    .bind(transfer.created)
    .execute(&mut **tx)
    .await?;
    Ok(Created { location: transfer.location(), thing: transfer })
}
