//! What the work of these tests answers.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

/// Hides a `Result`, as applications do.
pub(crate) type Answer<T> = Result<T, Failure>;

/// Why there is no answer: a word of the work's own, or the code of idem's error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Failure(pub(crate) String);

impl From<idem::Error> for Failure {
    fn from(error: idem::Error) -> Self {
        Self(error.code().to_owned())
    }
}

impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        Self(error.to_string())
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = match &*self.0 {
            "unwilling" => StatusCode::OK,
            "declined" => StatusCode::PAYMENT_REQUIRED,
            "stranger" => StatusCode::UNAUTHORIZED,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, self.0).into_response()
    }
}

/// What a piece of work comes to, by its name: the name and its attempt, or a failure.
pub(crate) fn outcome(work: &str) -> Answer<String> {
    let attempt = idem::current().map_or(0, |run| run.attempt());
    match work {
        "panics" => panic!("as it was told"),
        "declined" | "stranger" | "unwilling" => Err(Failure(work.to_owned())),
        "fails at first" if attempt == 1 => Err(Failure(work.to_owned())),
        _ => Ok(format!("{work}, {attempt}")),
    }
}
