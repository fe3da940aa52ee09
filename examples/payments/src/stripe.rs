//! The same charges in the manner of Stripe's API: forms in, its objects and its errors out. Its SDKs can be pointed here;
//! they make keys and retry by themselves.

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Form, FromRequest, FromRequestParts, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{Response, StatusCode};
use axum::response::IntoResponse;
use idem::ErrorKind;
use idem::axum::idempotent;
use serde_json::{Map, Value, json};

use crate::app::App;
use crate::charges::{Charge, ChargeRequest, charge};
use crate::money::Amount;
use crate::problem::Problem;
use crate::user::User;

/// `POST /v1/charges`
///
/// As `POST /charges`, with the habits of another house: a reused key is 400 and `idempotency_error`, and what idem says
/// itself looks like everything else here.
#[idempotent(
    key = header,
    ttl = "24h",
    scope = merchant.0.account,
    engine = app.idem,
    mismatch_status = 400,
    render_errors = refusal
)]
pub async fn create(
    State(app): State<App>,
    merchant: Merchant,
    ChargeForm(request): ChargeForm,
) -> Result<Json<Value>, Error> {
    Ok(Json(object(&charge(&app, merchant.0, request).await?)))
}

/// A charge as Stripe shows it: the members that its SDKs and most of their users ask for.
fn object(charge: &Charge) -> Value {
    json!({
        "id": charge.id,
        "object": "charge",
        "amount": charge.amount,
        "amount_captured": charge.amount,
        "amount_refunded": 0,
        "captured": true,
        "created": charge.created,
        "currency": charge.currency,
        "description": charge.description,
        "livemode": false,
        "metadata": charge.metadata,
        "paid": true,
        "refunded": false,
        "status": "succeeded",
    })
}

/// Whoever asks, with errors of this house.
pub struct Merchant(User);

impl<S: Sync> FromRequestParts<S> for Merchant {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        Ok(Self(User::from_request_parts(parts, state).await?))
    }
}

/// A request in a form: `amount=2000&currency=usd&source=tok_visa&metadata[order]=17`.
pub struct ChargeForm(ChargeRequest);

impl<S: Send + Sync> FromRequest<S> for ChargeForm {
    type Rejection = Error;

    async fn from_request(request: Request, state: &S) -> Result<Self, Error> {
        let Form(fields) = Form::<Vec<(String, String)>>::from_request(request, state)
            .await
            .map_err(|error| Error::invalid_request(error.body_text()))?;
        read(fields).map(Self)
    }
}

/// Reads the fields. What is not known is ignored, but a retry must repeat it.
fn read(fields: Vec<(String, String)>) -> Result<ChargeRequest, Error> {
    let (mut amount, mut currency, mut source, mut description) = (None, None, None, None);
    let mut metadata = Map::new();
    for (name, value) in fields {
        if value.contains('\0') {
            // PostgreSQL knows no NUL.
            return Err(Error::invalid_request(format!("`{name}` has a NUL in it")));
        }
        match name.as_str() {
            "amount" => {
                let number =
                    value.parse::<u64>().map_err(|_| Error::invalid_request("`amount` is no integer"))?;
                amount = Some(Amount::try_from(number).map_err(Error::invalid_request)?);
            }
            "currency" => currency = Some(value.try_into().map_err(Error::invalid_request)?),
            "source" => source = Some(value.try_into().map_err(Error::invalid_request)?),
            "description" => description = Some(value),
            name => {
                if let Some(key) = name.strip_prefix("metadata[").and_then(|rest| rest.strip_suffix(']')) {
                    metadata.insert(key.to_owned(), Value::String(value));
                }
            }
        }
    }
    let missing = |name: &str| Error::invalid_request(format!("Missing required param: {name}."));
    Ok(ChargeRequest {
        amount: amount.ok_or_else(|| missing("amount"))?,
        currency: currency.ok_or_else(|| missing("currency"))?,
        source: source.ok_or_else(|| missing("source"))?,
        description,
        metadata,
    })
}

/// What is wrong, as Stripe says it.
#[derive(Debug)]
pub struct Error {
    status: StatusCode,
    kind: &'static str,
    code: Option<&'static str>,
    message: String,
}

impl Error {
    fn invalid_request(message: impl Into<String>) -> Self {
        let kind = "invalid_request_error";
        Self { status: StatusCode::BAD_REQUEST, kind, code: None, message: message.into() }
    }

    fn body(&self) -> Value {
        json!({ "error": { "type": self.kind, "code": self.code, "message": self.message } })
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        let kind = match problem.status() {
            StatusCode::PAYMENT_REQUIRED => "card_error",
            status if status.is_server_error() => "api_error",
            _ => "invalid_request_error",
        };
        Self {
            status: problem.status(),
            kind,
            code: Some(problem.code()),
            message: problem.detail().to_owned(),
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> axum::response::Response {
        (self.status, Json(self.body())).into_response()
    }
}

/// What idem says itself. Its `Retry-After` is added by idem.
fn refusal(error: &idem::Error) -> Response<Bytes> {
    let kind = match error.kind() {
        ErrorKind::KeyRequired | ErrorKind::KeyInvalid | ErrorKind::RequestTooLarge => {
            "invalid_request_error"
        }
        ErrorKind::StoreUnavailable | ErrorKind::Overloaded | ErrorKind::Aborted => "api_error",
        _ => "idempotency_error",
    };
    let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let error = Error { status, kind, code: Some(error.code()), message: error.title().to_owned() };
    let mut response = Response::new(Bytes::from(error.body().to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, axum::http::HeaderValue::from_static("application/json"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(text: &str) -> Vec<(String, String)> {
        let pairs = text.split('&').filter(|pair| !pair.is_empty());
        pairs
            .map(|pair| pair.split_once('=').unwrap())
            .map(|(name, value)| (name.into(), value.into()))
            .collect()
    }

    #[test]
    fn a_form_is_read_with_its_metadata() {
        let form =
            "amount=2000&currency=usd&source=tok_visa&description=tea&metadata[order]=17&expand[0]=customer";
        let request = read(fields(form)).unwrap();
        assert_eq!(json!([request.amount, request.currency]), json!([2000, "usd"]));
        assert_eq!((request.source.name(), request.description.as_deref()), ("tok_visa", Some("tea")));
        assert_eq!(Value::Object(request.metadata), json!({ "order": "17" }));
    }

    #[test]
    fn what_is_missing_or_wrong_is_named() {
        for (form, says) in [
            ("", "amount"),
            ("amount=1&source=tok_visa", "currency"),
            ("amount=-1&currency=usd&source=tok_visa", "`amount`"),
            ("amount=0&currency=usd&source=tok_visa", "positive"),
            ("amount=1&currency=usd&source=tok_gold", "no such source"),
            ("amount=1&currency=usd&source=tok_visa&description=a\0b", "`description`"),
        ] {
            let error = read(fields(form)).unwrap_err();
            assert_eq!((error.status, error.kind), (StatusCode::BAD_REQUEST, "invalid_request_error"));
            assert!(error.message.contains(says), "{form}: {error:?}");
        }
    }
}
