//! The course of a handler's call: from the captured request to the response.

use std::sync::Arc;

use axum::response::Response;
use http::HeaderValue;
use http::header::HeaderName;
use idem_core::answer::Answer;
use idem_core::call::Call;
use idem_core::error::{Error, ErrorKind, ReplayError};
use idem_core::http::problem::{REPLAYED, key_help};
use idem_core::http::response::decode;
use idem_core::outcome::Outcome;
use idem_core::transaction::{TransactionalStore, Tx, Writes};

use super::call::HttpCall;
use super::rejection::Refused;

impl<S> HttpCall<S> {
    /// Runs the handler once; it goes on if the client goes away.
    pub async fn run<F>(self, handler: F) -> Response
    where
        F: Future<Output = Response> + Send + 'static,
    {
        if self.is_safe() {
            return handler.await;
        }
        let key_header = self.key_header_read();
        match self.ready() {
            Err(error) => Refused::respond(error),
            Ok((call, keeper)) => {
                let manners = Manners { marker: marker(&call), key_header };
                let outcome = call.execute(move |run| keeper.watch(run, handler), replay).await;
                manners.finish(outcome)
            }
        }
    }

    /// Runs the handler once, in the caller's own future: for handlers that borrow, or are not `Send`.
    ///
    /// If the client goes away, that counts as a crash: the key is held until its lease ends.
    pub async fn run_inline<F>(self, handler: F) -> Response
    where
        F: Future<Output = Response>,
    {
        if self.is_safe() {
            return handler.await;
        }
        let key_header = self.key_header_read();
        match self.ready() {
            Err(error) => Refused::respond(error),
            Ok((call, keeper)) => {
                let manners = Manners { marker: marker(&call), key_header };
                let outcome = call.execute_inline(|run| keeper.watch(run, handler), replay).await;
                manners.finish(outcome)
            }
        }
    }
}

impl<S: TransactionalStore> HttpCall<Arc<S>> {
    /// Runs the handler once in a transaction: its writes and the stored response are committed together.
    ///
    /// The handler is given the transaction, and says with its response what becomes of what it wrote.
    /// [`Writes::Undo`], for a handler that failed, and a status of 500 and above undo it, whether the response is stored
    /// or not; so does a response that is not stored, such as a 401. A stored response keeps it otherwise. The handler
    /// goes on if the client goes away.
    ///
    /// Safe methods (GET and its like), and requests without a key where [`Missing::Run`](idem_core::policy::Missing)
    /// allows that, run in a transaction without a record.
    ///
    /// ```
    /// use axum::extract::State;
    /// use axum::http::StatusCode;
    /// use axum::response::{IntoResponse, Response};
    /// use idem::axum::{Captured, HttpCall};
    /// use idem::{Transactional, TransactionalStore, Writes};
    ///
    /// # async fn enter<T>(_: &mut T, _: &str) -> Result<(), ()> { Ok(()) }
    /// async fn deposit<S: TransactionalStore>(
    ///     State(idem): State<Transactional<S>>,
    ///     captured: Captured<String>,
    /// ) -> Response {
    ///     let (amount, request) = captured.into_parts();
    ///     HttpCall::of(idem.call("deposits.create"), request)
    ///         .shared()
    ///         .transact(move |mut tx| async move {
    ///             match enter(&mut *tx, &amount).await {
    ///                 Ok(()) => (StatusCode::CREATED.into_response(), Writes::Keep),
    ///                 // Replayed as the answer that it is, and nothing is left of what was written.
    ///                 Err(()) => (StatusCode::PAYMENT_REQUIRED.into_response(), Writes::Undo),
    ///             }
    ///         })
    ///         .await
    /// }
    /// ```
    pub async fn transact<F, Fut>(self, handler: F) -> Response
    where
        F: FnOnce(Tx<S::Transaction>) -> Fut + Send + 'static,
        Fut: Future<Output = (Response, Writes)> + Send + 'static,
    {
        let call = if self.is_safe() { self.without_record() } else { self };
        let key_header = call.key_header_read();
        match call.ready() {
            Err(error) => Refused::respond(error),
            Ok((call, keeper)) => {
                let manners = Manners { marker: marker(&call), key_header };
                let work = move |tx, run| keeper.watch_writes(run, handler(tx));
                manners.finish(call.execute_transaction(work, replay).await)
            }
        }
    }

    /// As [`transact`](Self::transact), in the caller's own future: for handlers that borrow, or are not `Send`.
    ///
    /// If the client goes away, nothing is left of what was written, and the key is free.
    pub async fn transact_inline<F, Fut>(self, handler: F) -> Response
    where
        F: FnOnce(Tx<S::Transaction>) -> Fut,
        Fut: Future<Output = (Response, Writes)>,
    {
        let call = if self.is_safe() { self.without_record() } else { self };
        let key_header = call.key_header_read();
        match call.ready() {
            Err(error) => Refused::respond(error),
            Ok((call, keeper)) => {
                let manners = Manners { marker: marker(&call), key_header };
                let work = |tx, run| keeper.watch_writes(run, handler(tx));
                manners.finish(call.execute_transaction_inline(work, replay).await)
            }
        }
    }
}

fn replay(answer: &Answer) -> Result<Response, ReplayError> {
    decode(answer).map(|response| response.map(Into::into))
}

/// How what came of a call is told.
struct Manners {
    /// The header that marks a replay.
    marker: HeaderName,
    /// The header that the key is read from, if it is read from one.
    key_header: Option<HeaderName>,
}

impl Manners {
    fn finish(self, outcome: Result<Outcome<Response>, Error>) -> Response {
        match outcome {
            Ok(Outcome::Fresh(mut response) | Outcome::Unprotected(mut response)) => {
                // A handler that passes on what another service replayed to it has run all the same.
                response.headers_mut().remove(&self.marker);
                response
            }
            Ok(Outcome::Replayed(mut response)) => {
                response.headers_mut().insert(self.marker, HeaderValue::from_static("true"));
                response
            }
            Err(error) => {
                if is_our_fault(error.kind()) {
                    tracing::error!(%error, "the request cannot be answered");
                }
                Refused::respond(match key_help(&error, self.key_header.as_ref().map(HeaderName::as_str)) {
                    Some(help) => error.with_help(help),
                    None => error,
                })
            }
        }
    }
}

fn marker<S>(call: &Call<S>) -> HeaderName {
    let name = call.engine().config().replay_header();
    if name == REPLAYED.as_str() {
        return REPLAYED;
    }
    // The engine has checked the name when it was built.
    HeaderName::try_from(name).unwrap_or(REPLAYED)
}

/// What a caller can do nothing about; the problem document does not explain it, so the log must.
fn is_our_fault(kind: ErrorKind) -> bool {
    kind.status() == 500
}
