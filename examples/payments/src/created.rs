//! The answer to a request that made something.

use axum::Json;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// 201, with where the new thing is to be found, and the thing itself.
#[derive(Debug)]
pub struct Created<T> {
    pub location: String,
    pub thing: T,
}

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        (StatusCode::CREATED, [(LOCATION, self.location)], Json(self.thing)).into_response()
    }
}
