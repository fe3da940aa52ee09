//! Refusals: what is answered instead of the handler.

use std::sync::Arc;

use bytes::Bytes;
use idem_core::error::{Error, ErrorKind};
use idem_core::http::policy::HttpPolicy;

/// Why idem answered instead of the handler: an extension of the response, for layers that write their own.
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

    /// Makes a response that says why it is there.
    pub(crate) fn render(http: &HttpPolicy, error: Error) -> http::Response<Bytes> {
        let mut response = http.render(&error);
        response.extensions_mut().insert(Self(Arc::new(error)));
        response
    }
}

/// The error of a body over the limit, which is named if it is ours.
pub(crate) fn too_large(limit: Option<usize>) -> Error {
    let error = Error::new(ErrorKind::RequestTooLarge);
    match limit {
        Some(limit) => error.with_detail(format!("at most {limit} bytes are allowed")),
        None => error,
    }
}
