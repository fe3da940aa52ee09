//! The attribute in edition 2021, with the library under another name, and with nothing to complain of.
#![deny(warnings, clippy::all, clippy::pedantic)]
#![warn(missing_docs, unused_qualifications, unreachable_pub)]

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::Json;
use renamed::{Error, Idempotency};
use serde::{Deserialize, Serialize};

/// What is charged.
#[derive(Debug, Deserialize, Serialize)]
pub struct Charge {
    /// Names the charge.
    pub id: String,
    /// In the smallest unit.
    pub amount: u64,
}

/// What was charged.
#[derive(Debug, PartialEq, Deserialize, Serialize)]
pub struct Receipt(pub u64);

/// Charges, by value.
///
/// # Errors
///
/// When it was not run.
#[renamed::idempotent(crate = renamed, key = charge.id, ttl = "24h", engine = idem, skip(idem, doubled))]
pub async fn owned(
    mut charge: Charge,
    doubled: bool,
    _channel: u8,
    (_, _traced): (u8, u8),
    idem: Idempotency,
) -> Result<Receipt, Error> {
    if doubled {
        charge.amount *= 2;
    }
    Ok(Receipt(charge.amount))
}

/// Charges, by reference.
///
/// # Errors
///
/// When it was not run.
#[renamed::idempotent(crate = ::renamed, key = (charge.id, "x"), ttl = "1h30m", scope = "tests", engine = idem, skip(idem))]
pub async fn borrowed(charge: &Charge, idem: &Idempotency) -> Result<Receipt, Error> {
    let &Charge { amount, .. } = charge;
    Ok(Receipt(amount))
}

/// A service with methods.
#[derive(Debug)]
pub struct Service {
    /// Its engine.
    pub idem: Idempotency,
}

impl Service {
    /// Charges, by a method.
    ///
    /// # Errors
    ///
    /// When it was not run.
    #[renamed::idempotent(
        crate = renamed, key = id, ttl = "7d", operation = "service.charge", engine = self.idem, in_flight = wait("5s")
    )]
    pub async fn charge(self: Arc<Self>, (id, amount): (u32, u64)) -> Result<Receipt, Error> {
        let _ = id;
        Ok(Receipt(amount))
    }
}

/// Charges, over HTTP.
///
/// # Errors
///
/// When there is nothing to charge.
#[renamed::axum::idempotent(crate = renamed, key = header, ttl = "24h", scope = shared, engine = idem)]
pub async fn handler(
    State(idem): State<Idempotency>,
    _method: axum::http::Method,
    Json(Charge { id, amount }): Json<Charge>,
) -> Result<(StatusCode, Json<Receipt>), StatusCode> {
    if id.is_empty() {
        return Err(StatusCode::UNPROCESSABLE_ENTITY);
    }
    Ok((StatusCode::CREATED, Json(Receipt(amount))))
}

/// Answers with something.
#[renamed::axum::idempotent(crate = renamed, key = header, ttl = "24h", scope = shared)]
pub async fn opaque() -> impl IntoResponse {
    "something"
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use axum::routing::post;
    use axum::Router;
    use renamed::MemoryStore;
    use tower::ServiceExt;

    use super::*;

    fn charge(amount: u64) -> Charge {
        Charge { id: "a".to_owned(), amount }
    }

    #[tokio::test]
    async fn functions_replay() {
        let idem = Idempotency::new(MemoryStore::new());
        assert_eq!(owned(charge(5), true, 1, (2, 3), idem.clone()).await.unwrap(), Receipt(10));
        assert_eq!(owned(charge(5), false, 1, (2, 3), idem.clone()).await.unwrap(), Receipt(10));
        assert_eq!(borrowed(&charge(5), &idem).await.unwrap(), Receipt(5));
        assert!(borrowed(&charge(6), &idem).await.is_err());
        let service = Arc::new(Service { idem });
        assert_eq!(Arc::clone(&service).charge((1, 5)).await.unwrap(), Receipt(5));
        assert!(service.charge((1, 6)).await.is_err());
    }

    #[tokio::test]
    async fn handlers_replay() {
        let idem = Idempotency::new(MemoryStore::new());
        let router = Router::new().route("/", post(handler)).with_state(idem);
        for replayed in [false, true] {
            let request = Request::post("/")
                .header("idempotency-key", "k")
                .header("content-type", "application/json")
                .body(Body::from(r#"{"id":"a","amount":5}"#))
                .unwrap();
            let response = router.clone().oneshot(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::CREATED);
            assert_eq!(response.headers().contains_key("idempotent-replayed"), replayed);
        }
    }

    #[tokio::test]
    async fn a_handler_without_an_engine_answers_with_an_error() {
        let router = Router::new().route("/", post(opaque));
        let request = Request::post("/").header("idempotency-key", "k").body(Body::empty()).unwrap();
        assert_eq!(router.oneshot(request).await.unwrap().status(), StatusCode::INTERNAL_SERVER_ERROR);
    }
}
