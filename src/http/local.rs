//! The course of a call whose handler cannot leave its thread.

use std::sync::Arc;

use idem_core::run::Run;
use idem_core::transaction::{TransactionalStore, Tx, Writes};

use super::call::HttpCall;
use super::course::Begun;
use super::reply::Reply;

impl<S> HttpCall<S> {
    /// As [`run`](Self::run), for handlers that are not `Send`: one whose client goes away goes on in its thread.
    ///
    /// That needs a [`LocalSet`](https://docs.rs/tokio/latest/tokio/task/struct.LocalSet.html), as actix has one for each
    /// of its workers. Elsewhere it is as with [`run_inline`](Self::run_inline): a crash.
    pub fn run_local<R, F>(self, handler: F) -> impl Future<Output = R::Sent> + use<S, R, F>
    where
        R: Reply<Sent: 'static> + 'static,
        F: Future<Output = R> + 'static,
    {
        self.run_local_with(|_| handler)
    }

    /// As [`run_local`](Self::run_local), with a handler that is told of its run; there is none for a safe method.
    pub(crate) async fn run_local_with<R, F, Fut>(self, handler: F) -> R::Sent
    where
        R: Reply<Sent: 'static> + 'static,
        F: FnOnce(Option<&Run>) -> Fut + 'static,
        Fut: Future<Output = R> + 'static,
    {
        match self.begin(handler).await {
            Err(sent) => sent,
            Ok(Begun { manners, call, work }) => {
                let replay = manners.replay::<R>();
                manners.finish::<R>(call.execute_local(move |run| work.watched(run), replay).await)
            }
        }
    }
}

impl<S: TransactionalStore> HttpCall<Arc<S>> {
    /// As [`transact`](Self::transact), for handlers that are not `Send`: one whose client goes away goes on in its
    /// thread.
    ///
    /// Where no `LocalSet` runs it is as with [`transact_inline`](Self::transact_inline): nothing is left of it.
    pub async fn transact_local<R, F, Fut>(self, handler: F) -> R::Sent
    where
        R: Reply<Sent: 'static> + 'static,
        F: FnOnce(Tx<S::Transaction>) -> Fut + 'static,
        Fut: Future<Output = (R, Writes)> + 'static,
    {
        let call = if self.is_safe() { self.without_record() } else { self };
        match call.ready() {
            (manners, Err(error)) => manners.refuse::<R>(error),
            (manners, Ok((call, keeper))) => {
                let replay = manners.replay::<R>();
                let work = move |tx, run| keeper.watch_writes(run, handler(tx));
                manners.finish::<R>(call.execute_transaction_local(work, replay).await)
            }
        }
    }
}
