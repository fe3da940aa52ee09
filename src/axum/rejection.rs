//! Rejections and problems: what is answered instead of the handler.

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use idem_core::error::Error;
use idem_core::http::policy::HttpPolicy;

use crate::http::body::is_over_a_limit;
use crate::http::request::BROKEN;
use crate::http::{Refused, Reply as _, too_large};

/// Why a request was not captured. Nothing is claimed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Rejection<R> {
    /// The body is over the limit: 413.
    TooLarge(Error),
    /// The body could not be read to its end: 400.
    Broken(axum::Error),
    /// The handler's own extractor rejected the request: its own response.
    Extractor(R),
}

impl<R> Rejection<R> {
    pub(super) fn too_large(limit: usize) -> Self {
        Self::TooLarge(too_large(Some(limit)))
    }

    /// A limit that somebody else put on the body is a limit, too.
    pub(super) fn broken(error: axum::Error) -> Self {
        if is_over_a_limit(&error) {
            return Self::TooLarge(too_large(None));
        }
        Self::Broken(error)
    }
}

impl<R: IntoResponse> IntoResponse for Rejection<R> {
    fn into_response(self) -> Response {
        match self {
            Self::TooLarge(error) => Response::of_bytes(Refused::render(&HttpPolicy::of_the_house(), error)),
            Self::Broken(_) => (StatusCode::BAD_REQUEST, BROKEN).into_response(),
            Self::Extractor(rejection) => rejection.into_response(),
        }
    }
}

/// Renders an error of which no engine knows: as all engines of the process do it, a problem document unless they were
/// told otherwise.
pub fn refuse(error: &Error) -> Response {
    Response::of_bytes(HttpPolicy::of_the_house().render(error))
}
