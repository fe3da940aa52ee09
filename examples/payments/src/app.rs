//! The application: what its handlers share, and its routes.

use std::error::Error;
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use idem::Idempotency;
use tower_http::catch_panic::CatchPanicLayer;

use crate::ledger::Ledger;
use crate::options::Options;
use crate::problem::Problem;
use crate::store::Opened;
use crate::{account, charges, payouts, refunds, stripe, transfers};

/// What handlers share.
#[derive(Debug, Clone)]
pub struct App {
    pub idem: Idempotency,
    pub ledger: Arc<dyn Ledger>,
    opened: Opened,
}

impl App {
    /// Opens the store, with its engine.
    pub async fn open(options: &Options) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let opened = Opened::open(options).await?;
        Ok(Self { idem: opened.engine.idem().clone(), ledger: opened.ledger.clone(), opened })
    }

    /// Closes what [`open`](Self::open) opened. Handlers under way, of which there should be none, can no longer store.
    pub async fn close(&self) {
        self.opened.close().await;
    }

    /// The routes.
    ///
    /// Order matters: who is asking comes before idem, since a replay is for those who still have access. Here that is
    /// the extractor `User`, which each handler names before the body: extractors run before a key is claimed, so a
    /// request without a token is answered 401 and the store is not asked. A layer that authenticates does as well, as
    /// does one that limits rates: layers are outside of the handlers that `#[idempotent]` wraps.
    pub fn routes(self) -> Router {
        Router::new()
            .route("/charges", post(charges::create).get(charges::list))
            .route("/charges/{id}", get(charges::show))
            .route("/v1/charges", post(stripe::create))
            .route("/charges/{id}/refund", post(refunds::create).get(refunds::show))
            .route("/payouts", post(payouts::create).get(payouts::list))
            .route("/payouts/{id}", get(payouts::show))
            .route("/transfers", transfers::create(&self.opened.engine).get(transfers::list))
            .route("/transfers/{id}", get(transfers::show))
            .route("/accounts", get(account::list))
            .route("/healthz", get(async || "ok"))
            // Outermost: idem frees the key of a handler that panics and lets the panic go on to here.
            .layer(CatchPanicLayer::custom(|_| Problem::panicked().into()))
            .with_state(self)
    }
}
