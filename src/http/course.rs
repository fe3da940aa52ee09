//! The course of a handler's call: from the captured request to the response.

use std::sync::Arc;

use idem_core::call::Call;
use idem_core::policy::Verdict;
use idem_core::run::Run;
use idem_core::transaction::{TransactionalStore, Tx, Writes};

use super::call::HttpCall;
use super::keep::{Judged, Keeper};
use super::manners::Manners;
use super::reply::Reply;

/// A call that is still to be claimed.
pub(super) struct Begun<S, F> {
    pub(super) manners: Manners,
    pub(super) call: Call<S>,
    pub(super) work: Work<F>,
}

/// A handler, and who decides what is kept of its response.
pub(super) struct Work<F> {
    keeper: Keeper,
    handler: F,
}

impl<F> Work<F> {
    /// Runs the handler, and decides what becomes of its record.
    pub(super) fn watched<R, Fut>(self, run: Run) -> impl Future<Output = (R::Sent, Verdict)>
    where
        R: Reply,
        F: FnOnce(Option<&Run>) -> Fut,
        Fut: Future<Output = R>,
    {
        let handler = (self.handler)(Some(&run));
        self.keeper.watch(run, handler)
    }
}

impl<S> HttpCall<S> {
    /// Begins the course that all handlers share but those in transactions; where nothing is to be claimed it ends here,
    /// with what the caller gets.
    pub(super) async fn begin<R, F, Fut>(mut self, handler: F) -> Result<Begun<S, F>, R::Sent>
    where
        R: Reply,
        F: FnOnce(Option<&Run>) -> Fut,
        Fut: Future<Output = R>,
    {
        if self.is_safe() {
            return Err(handler(None).await.sent());
        }
        if let Some((run, http)) = self.claimed() {
            let handler = handler(Some(&run));
            return Err(Judged::put_on(run.over(handler).await, &http));
        }
        match self.ready() {
            (manners, Err(error)) => Err(manners.refuse::<R>(error)),
            (manners, Ok((call, keeper))) => Ok(Begun { manners, call, work: Work { keeper, handler } }),
        }
    }

    /// Runs the handler once; it goes on if the client goes away.
    ///
    /// Under a layer that has claimed the request already the handler just runs, within the layer's run: only
    /// [`store_if`](Self::store_if) is heeded of what was said here.
    pub fn run<R, F>(self, handler: F) -> impl Future<Output = R::Sent> + use<S, R, F>
    where
        R: Reply<Sent: Send + 'static, Body: Send, Rest: Send> + 'static,
        F: Future<Output = R> + Send + 'static,
    {
        self.run_with(|_| handler)
    }

    /// As [`run`](Self::run), with a handler that is told of its run; there is none for a safe method.
    pub(crate) async fn run_with<R, F, Fut>(self, handler: F) -> R::Sent
    where
        R: Reply<Sent: Send + 'static, Body: Send, Rest: Send> + 'static,
        F: FnOnce(Option<&Run>) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
    {
        match self.begin(handler).await {
            Err(sent) => sent,
            Ok(Begun { manners, call, work }) => {
                let replay = manners.replay::<R>();
                manners.finish::<R>(call.execute(move |run| work.watched(run), replay).await)
            }
        }
    }

    /// Runs the handler once, in the caller's own future: for handlers that borrow, or are not `Send`.
    ///
    /// If the client goes away, that counts as a crash: the key is held until its lease ends. Under a layer that has
    /// claimed the request, it is as [`run`](Self::run) says.
    pub async fn run_inline<R, F>(self, handler: F) -> R::Sent
    where
        R: Reply,
        F: Future<Output = R>,
    {
        match self.begin(|_| handler).await {
            Err(sent) => sent,
            Ok(Begun { manners, call, work }) => {
                let replay = manners.replay::<R>();
                manners.finish::<R>(call.execute_inline(|run| work.watched(run), replay).await)
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
    /// Under a layer that has claimed the request the transaction claims, too: what it writes is committed together with
    /// its own record, and the layer's could not be in it.
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
    pub async fn transact<R, F, Fut>(self, handler: F) -> R::Sent
    where
        R: Reply<Sent: Send + 'static, Body: Send, Rest: Send> + 'static,
        F: FnOnce(Tx<S::Transaction>) -> Fut + Send + 'static,
        Fut: Future<Output = (R, Writes)> + Send + 'static,
    {
        let call = if self.is_safe() { self.without_record() } else { self };
        match call.ready() {
            (manners, Err(error)) => manners.refuse::<R>(error),
            (manners, Ok((call, keeper))) => {
                let replay = manners.replay::<R>();
                let work = move |tx, run| keeper.watch_writes(run, handler(tx));
                manners.finish::<R>(call.execute_transaction(work, replay).await)
            }
        }
    }

    /// As [`transact`](Self::transact), in the caller's own future: for handlers that borrow, or are not `Send`.
    ///
    /// If the client goes away, nothing is left of what was written, and the key is free.
    pub async fn transact_inline<R, F, Fut>(self, handler: F) -> R::Sent
    where
        R: Reply,
        F: FnOnce(Tx<S::Transaction>) -> Fut,
        Fut: Future<Output = (R, Writes)>,
    {
        let call = if self.is_safe() { self.without_record() } else { self };
        match call.ready() {
            (manners, Err(error)) => manners.refuse::<R>(error),
            (manners, Ok((call, keeper))) => {
                let replay = manners.replay::<R>();
                let work = |tx, run| keeper.watch_writes(run, handler(tx));
                manners.finish::<R>(call.execute_transaction_inline(work, replay).await)
            }
        }
    }
}
