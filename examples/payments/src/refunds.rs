//! Refunds: a charge given back, whole and once.

use axum::Json;
use axum::extract::{Path, State};
use idem::axum::idempotent;
use serde::{Deserialize, Serialize};
use sqlx::FromRow;

use crate::app::App;
use crate::charges::{new_id, now};
use crate::created::Created;
use crate::money::{Amount, Currency};
use crate::problem::Problem;
use crate::user::User;

/// A refund that happened.
#[derive(Debug, Clone, Serialize, Deserialize, FromRow)]
pub struct Refund {
    pub id: String,
    /// The key of the request that made it, derived; see `payouts.rs`.
    pub reference: String,
    /// Unique in the ledger: a charge is refunded once.
    pub charge: String,
    pub account: String,
    pub amount: Amount,
    pub currency: Currency,
    #[sqlx(try_from = "i64")]
    pub attempt: u32,
    /// Seconds since 1970.
    pub created: i64,
}

/// `POST /charges/{id}/refund`
#[idempotent(key = header, ttl = "24h", scope = user.account, engine = app.idem)]
pub async fn create(
    State(app): State<App>,
    user: User,
    Path(id): Path<String>,
) -> Result<Created<Refund>, Problem> {
    let run = idem::current().expect("an annotated handler has a run");
    let Some(charge) = app.ledger.find_charge(&user.account, &id).await? else {
        return Err(Problem::no_such("This account has no such charge."));
    };
    let reference = run.derive("refund");
    let refund = Refund {
        id: new_id("re"),
        reference: reference.clone(),
        charge: charge.id,
        account: user.account,
        amount: charge.amount,
        currency: charge.currency,
        attempt: run.attempt(),
        created: now(),
    };
    let refund = app.ledger.refund(refund).await?;
    // Ours, from this attempt or one that crashed, or that of another request.
    if refund.reference != reference {
        return Err(Problem::already_refunded());
    }
    Ok(Created { location: format!("/charges/{}/refund", refund.charge), thing: refund })
}

/// `GET /charges/{id}/refund`
pub async fn show(
    State(app): State<App>,
    user: User,
    Path(id): Path<String>,
) -> Result<Json<Refund>, Problem> {
    let refund = app.ledger.find_refund(&user.account, &id).await?;
    refund.map(Json).ok_or(Problem::no_such("This account has refunded no such charge."))
}
