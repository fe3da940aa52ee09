//! Transfers in MySQL and MariaDB.

use axum::Json;
use axum::extract::State;
use idem::axum::idempotent;
use idem::{MySqlStore, Transactional};

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
    State(idem): State<Transactional<MySqlStore>>,
    user: User,
    Json(request): Json<TransferRequest>,
) -> Result<Created<Transfer>, Problem> {
    let transfer = Transfer::new(request, user)?;
    let [first, second] = transfer.accounts();
    // Declines before anything is written what is plainly not covered: if InnoDB undoes a new row that two others wait for,
    // these two dead-lock. Should it come to that all the same, it is a failure, and a retry runs again.
    let is_covered = "SELECT coalesce((SELECT balance FROM accounts WHERE account = ?), 1000) >= ?";
    let is_covered: i64 = sqlx::query_scalar(is_covered)
        .bind(&transfer.from)
        .bind(transfer.amount)
        .fetch_one(&mut **tx)
        .await?;
    if is_covered == 0 {
        return Err(Problem::insufficient_funds());
    }
    // Opens those that are new and locks both. The update changes nothing.
    sqlx::query(
        "INSERT INTO accounts (account, balance) VALUES (?, 1000), (?, 1000)
         ON DUPLICATE KEY UPDATE balance = balance",
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
