//! Charges: money that a customer pays.

use axum::Json;
use axum::extract::{Path, State};
use idem::axum::idempotent;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use sqlx::FromRow;

use crate::app::App;
use crate::created::Created;
use crate::money::{Amount, Currency};
use crate::problem::Problem;
use crate::source::Source;
use crate::user::User;

/// What a client asks for. Unknown fields are ignored, but a retry must repeat them: it is the same request or it is not.
#[derive(Debug, Deserialize)]
pub struct ChargeRequest {
    pub amount: Amount,
    pub currency: Currency,
    pub source: Source,
    #[serde(default, deserialize_with = "text")]
    pub description: Option<String>,
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// A charge that happened: a row of the ledger.
#[derive(Debug, Clone, Serialize, Deserialize, FromRow)]
pub struct Charge {
    pub id: String,
    pub account: String,
    pub amount: Amount,
    pub currency: Currency,
    pub source: String,
    pub description: Option<String>,
    #[sqlx(json)]
    pub metadata: Map<String, Value>,
    /// Which run of the request this is from: above 1 after a failure or a crash.
    #[sqlx(try_from = "i64")]
    pub attempt: u32,
    /// Seconds since 1970.
    pub created: i64,
}

/// `POST /charges`
///
/// The ledger would take the same charge twice. It is the attribute that lets this body run once for each key of an
/// account; retries get the stored response. Should the process crash between the two last steps, a retry runs it again,
/// as nobody can tell what became of it: `payouts.rs` shows how to be safe there, too.
#[idempotent(key = header, ttl = "24h", scope = user.account, engine = app.idem)]
pub async fn create(
    State(app): State<App>,
    user: User,
    Json(request): Json<ChargeRequest>,
) -> Result<Created<Charge>, Problem> {
    let charge = charge(&app, user, request).await?;
    Ok(Created { location: format!("/charges/{}", charge.id), thing: charge })
}

/// Moves the money: what both kinds of handler do.
pub async fn charge(app: &App, user: User, request: ChargeRequest) -> Result<Charge, Problem> {
    let run = idem::current().expect("an annotated handler has a run");
    request.source.authorize(run.attempt()).await?;
    let charge = Charge {
        id: new_id("ch"),
        account: user.account,
        amount: request.amount,
        currency: request.currency,
        source: request.source.name().to_owned(),
        description: request.description,
        metadata: request.metadata,
        attempt: run.attempt(),
        created: now(),
    };
    app.ledger.charge(&charge).await?;
    request.source.settle().await;
    tracing::info!(charge = charge.id, account = charge.account, attempt = charge.attempt, "charged");
    Ok(charge)
}

/// `GET /charges`
pub async fn list(State(app): State<App>, user: User) -> Result<Json<Vec<Charge>>, Problem> {
    Ok(Json(app.ledger.charges(&user.account).await?))
}

/// `GET /charges/{id}`
pub async fn show(
    State(app): State<App>,
    user: User,
    Path(id): Path<String>,
) -> Result<Json<Charge>, Problem> {
    let charge = app.ledger.find_charge(&user.account, &id).await?;
    charge.map(Json).ok_or(Problem::no_such("This account has no such charge."))
}

/// Text that every database can keep: PostgreSQL knows no NUL.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let text: Option<String> = Deserialize::deserialize(deserializer)?;
    if text.as_ref().is_some_and(|text| text.contains('\0')) {
        return Err(D::Error::custom("`description` has a NUL in it"));
    }
    Ok(text)
}

/// A new id. Not a derived one: if this runs twice, that is to be seen.
pub fn new_id(kind: &str) -> String {
    format!("{kind}_{}", uuid::Uuid::new_v4().simple())
}

/// Seconds since 1970.
pub fn now() -> i64 {
    let since = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    since.as_secs().try_into().unwrap_or(i64::MAX)
}
