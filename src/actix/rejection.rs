//! Rejections and problems: what is answered instead of the handler.

use std::fmt;

use actix_web::error::{InternalError, PayloadError};
use actix_web::http::StatusCode;
use actix_web::{HttpResponse, ResponseError};
use idem_core::error::Error;
use idem_core::http::policy::HttpPolicy;

use crate::http::request::{BROKEN, Unread};
use crate::http::{Refused, Reply as _, too_large};

/// Why a request was not captured. Nothing is claimed.
#[derive(Debug)]
pub(super) enum Rejection {
    /// The body could not be read to its end: 400.
    Broken,
    /// The target or a header cannot be read: 400.
    Unreadable,
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Broken => BROKEN,
            Self::Unreadable => "The head of the request could not be read.",
        })
    }
}

impl ResponseError for Rejection {
    fn status_code(&self) -> StatusCode {
        StatusCode::BAD_REQUEST
    }
}

impl Rejection {
    /// Why the body was not read, as somebody's policy renders it.
    pub(super) fn of(unread: &Unread<PayloadError>, http: &HttpPolicy) -> actix_web::Error {
        let limit = match unread {
            Unread::TooLarge(limit) => Some(*limit),
            // A limit that somebody else put on the body is a limit, too.
            Unread::Broken(PayloadError::Overflow) => None,
            Unread::Broken(_) => return Self::Broken.into(),
        };
        let error = too_large(limit);
        let cause = error.to_string();
        let response = Refused::render(http, error);
        InternalError::from_response(cause, HttpResponse::of_bytes(response)).into()
    }
}

/// Renders an error of which no engine knows: as all engines of the process do it, a problem document unless they were
/// told otherwise.
pub fn refuse(error: &Error) -> HttpResponse {
    HttpResponse::of_bytes(HttpPolicy::of_the_house().render(error))
}
