//! What axum tells a layer of a request.

use axum::extract::{MatchedPath, OriginalUri};
use http::Uri;
use http::request::Parts;

/// Names an operation by service, method and matched route; `None` if no route matches.
pub(super) fn route(service: &str, parts: &Parts) -> Option<String> {
    let route = parts.extensions.get::<MatchedPath>()?.as_str();
    Some(format!("{service} {} {route}", parts.method))
}

/// The URI that the client sent, also under a nested router.
pub(super) fn original_uri(parts: &Parts) -> &Uri {
    parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |original| &original.0)
}
