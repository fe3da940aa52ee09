//! Payouts: money that is paid to somebody, once, whatever crashes when.

use axum::Json;
use axum::extract::{Path, State};
use idem::axum::idempotent;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sqlx::FromRow;

use crate::app::App;
use crate::charges::{ChargeRequest, new_id, now};
use crate::created::Created;
use crate::money::{Amount, Currency};
use crate::problem::Problem;
use crate::user::User;

/// A payout that happened: a row of the provider's table.
#[derive(Debug, Clone, Serialize, Deserialize, FromRow)]
pub struct Payout {
    pub id: String,
    /// The provider's own idempotency key: unique in its table.
    pub reference: String,
    pub account: String,
    pub amount: Amount,
    pub currency: Currency,
    pub source: String,
    pub description: Option<String>,
    #[sqlx(json)]
    pub metadata: Map<String, Value>,
    /// Which run of the request paid.
    #[sqlx(try_from = "i64")]
    pub attempt: u32,
    /// Seconds since 1970.
    pub created: i64,
}

/// `POST /payouts`
///
/// Like a charge, but the provider is given a key derived from ours: the same for every attempt. If the process crashes
/// after it has paid and before the response is stored, the retry's run finds that payout instead of making another.
#[idempotent(key = header, ttl = "24h", scope = user.account, engine = app.idem)]
pub async fn create(
    State(app): State<App>,
    user: User,
    Json(request): Json<ChargeRequest>,
) -> Result<Created<Payout>, Problem> {
    let run = idem::current().expect("an annotated handler has a run");
    request.source.authorize(run.attempt()).await?;
    let payout = Payout {
        id: new_id("po"),
        reference: run.derive("payout"),
        account: user.account,
        amount: request.amount,
        currency: request.currency,
        source: request.source.name().to_owned(),
        description: request.description,
        metadata: request.metadata,
        attempt: run.attempt(),
        created: now(),
    };
    let payout = app.ledger.pay(payout).await?;
    request.source.settle().await;
    tracing::info!(payout = payout.id, account = payout.account, attempt = run.attempt(), "paid");
    Ok(Created { location: format!("/payouts/{}", payout.id), thing: payout })
}

/// `GET /payouts`
pub async fn list(State(app): State<App>, user: User) -> Result<Json<Vec<Payout>>, Problem> {
    Ok(Json(app.ledger.payouts(&user.account).await?))
}

/// `GET /payouts/{id}`
pub async fn show(
    State(app): State<App>,
    user: User,
    Path(id): Path<String>,
) -> Result<Json<Payout>, Problem> {
    let payout = app.ledger.find_payout(&user.account, &id).await?;
    payout.map(Json).ok_or(Problem::no_such("This account has no such payout."))
}
