//! Transfers in PostgreSQL.

use axum::Json;
use axum::extract::State;
use idem::axum::idempotent;
use idem::{PostgresStore, Transactional};

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
    State(idem): State<Transactional<PostgresStore>>,
    user: User,
    Json(request): Json<TransferRequest>,
) -> Result<Created<Transfer>, Problem> {
    let transfer = Transfer::new(request, user)?;
    let [first, second] = transfer.accounts();
    // Opens those that are new and locks both. The update changes nothing.
    sqlx::query(
        "INSERT INTO accounts (account, balance) VALUES ($1, 1000), ($2, 1000)
         ON CONFLICT (account) DO UPDATE SET balance = accounts.balance",
    )
    .bind(first)
    .bind(second)
    .execute(&mut **tx)
    .await?;
    let paid = sqlx::query("UPDATE accounts SET balance = balance - $1 WHERE account = $2 AND balance >= $1")
        .bind(transfer.amount)
        .bind(&transfer.from)
        .execute(&mut **tx)
        .await?;
    if paid.rows_affected() == 0 {
        return Err(Problem::insufficient_funds());
    }
    sqlx::query("UPDATE accounts SET balance = balance + $1 WHERE account = $2")
        .bind(transfer.amount)
        .bind(&transfer.to)
        .execute(&mut **tx)
        .await?;
    sqlx::query(
        "INSERT INTO transfers (id, account, payer, payee, amount, attempt, created)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(&transfer.id)
    .bind(&transfer.account)
    .bind(&transfer.from)
    .bind(&transfer.to)
    .bind(transfer.amount)
    .bind(i64::from(transfer.attempt))
    .bind(transfer.created)
    .execute(&mut **tx)
    .await?;
    Ok(Created { location: transfer.location(), thing: transfer })
}
