//! Rejections and problems: what is answered instead of the handler.

use std::sync::Arc;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use http_body_util::LengthLimitError;
use idem_core::error::{Error, ErrorKind};
use idem_core::http::problem;

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
        let mut source: Option<&(dyn std::error::Error + 'static)> = Some(&error);
        while let Some(link) = source {
            if link.is::<LengthLimitError>() {
                return Self::TooLarge(too_large(None));
            }
            source = link.source();
        }
        Self::Broken(error)
    }
}

impl<R: IntoResponse> IntoResponse for Rejection<R> {
    fn into_response(self) -> Response {
        match self {
            Self::TooLarge(error) => Refused::respond(error),
            Self::Broken(_) => {
                (StatusCode::BAD_REQUEST, "The body of the request could not be read to its end.")
                    .into_response()
            }
            Self::Extractor(rejection) => rejection.into_response(),
        }
    }
}

pub(super) fn too_large(limit: Option<usize>) -> Error {
    let error = Error::new(ErrorKind::RequestTooLarge);
    match limit {
        Some(limit) => error.with_detail(format!("at most {limit} bytes are allowed")),
        None => error,
    }
}

/// Renders an error as a problem document.
pub fn refuse(error: &Error) -> Response {
    problem::render(error, None).map(Into::into)
}

/// Why idem answered instead of the handler: an extension of the problem document, for layers that write their own.
///
/// ```
/// use axum::middleware::map_response;
/// use axum::response::{IntoResponse, Response};
/// use idem::axum::Refused;
///
/// async fn house_style(response: Response) -> Response {
///     match response.extensions().get::<Refused>() {
///         Some(refused) => (response.status(), refused.error().code()).into_response(),
///         None => response,
///     }
/// }
/// # let _: axum::Router = axum::Router::new().layer(map_response(house_style));
/// ```
#[derive(Debug, Clone)]
pub struct Refused(Arc<Error>);

impl Refused {
    /// The error.
    pub fn error(&self) -> &Error {
        &self.0
    }

    pub(super) fn respond(error: Error) -> Response {
        let mut response = refuse(&error);
        response.extensions_mut().insert(Self(Arc::new(error)));
        response
    }
}
