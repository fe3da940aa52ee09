//! Replies of axum, which are `http::Response` already.

use axum::body::Body;
use axum::response::Response;

use crate::http::body::Simple;
use crate::http::{Apart, Reply, Resumed};

impl Reply for Response {
    type Body = Body;
    type Rest = ();
    type Sent = Self;

    fn apart(self) -> Apart<Self> {
        Ok((self, ()))
    }

    fn whole(response: http::Response<Resumed<Body>>, (): ()) -> Self {
        response.map(body_of)
    }
}

/// Boxes a body only where axum has no other way to hold it.
pub(super) fn body_of(body: Resumed<Body>) -> Body {
    match body.simple() {
        Simple::Bytes(bytes) => bytes.into(),
        Simple::Unread(body) => body,
        Simple::Mixed(body) => Body::new(body),
    }
}
