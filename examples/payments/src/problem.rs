//! What a caller is told when something is wrong: problem documents (RFC 9457).

use axum::Json;
use axum::http::header::{CONTENT_TYPE, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::IntoResponse;
use serde_json::json;

use crate::ledger::LedgerError;

/// What is wrong, for programs (`status`, `code`) and for people (`detail`).
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    detail: &'static str,
}

impl Problem {
    fn new(status: StatusCode, code: &'static str, detail: &'static str) -> Self {
        Self { status, code, detail }
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    pub fn code(&self) -> &'static str {
        self.code
    }

    pub fn detail(&self) -> &'static str {
        self.detail
    }

    pub fn unauthorized() -> Self {
        let detail = "Send `Authorization: Bearer ACCOUNT`, or `Bearer ACCOUNT.TOKEN`.";
        Self::new(StatusCode::UNAUTHORIZED, "unauthorized", detail)
    }

    pub fn declined() -> Self {
        Self::new(StatusCode::PAYMENT_REQUIRED, "card_declined", "The card was declined.")
    }

    pub fn processing() -> Self {
        let detail = "The card could not be processed; try again with the same key.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "processing_error", detail)
    }

    pub fn no_such(what: &'static str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", what)
    }

    pub fn already_refunded() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "already_refunded", "This charge was refunded under another key.")
    }

    pub fn insufficient_funds() -> Self {
        let detail = "There is not enough in the account that is to pay.";
        Self::new(StatusCode::PAYMENT_REQUIRED, "insufficient_funds", detail)
    }

    pub fn same_account() -> Self {
        Self::new(StatusCode::BAD_REQUEST, "same_account", "A transfer goes from one account to another.")
    }

    pub fn not_implemented(detail: &'static str) -> Self {
        Self::new(StatusCode::NOT_IMPLEMENTED, "not_implemented", detail)
    }

    pub fn panicked() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "The server made a mistake.")
    }
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        // What went wrong is for the operator, not for the caller.
        tracing::error!(%error, "the ledger failed");
        let detail = "The ledger cannot be reached; try again with the same key.";
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ledger_unavailable", detail)
    }
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Self {
        LedgerError::from(error).into()
    }
}

impl From<Problem> for Response<axum::body::Body> {
    fn from(problem: Problem) -> Self {
        let Problem { status, code, detail } = problem;
        let title = status.canonical_reason();
        let body = json!({
            "type": "about:blank",
            "title": title,
            "status": status.as_u16(),
            "detail": detail,
            "code": code,
        });
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> axum::response::Response {
        self.into()
    }
}
