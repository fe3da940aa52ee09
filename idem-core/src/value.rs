//! Plain values: how the result of a function becomes a stored answer, and back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::{Answer, AnswerKind, Codec, Undecodable};
use crate::error::{ReplayError, Tombstone};
use crate::policy::{Mark, Verdict};
use crate::run::Run;
use crate::transaction::{Tx, Writes};

/// How the results of a function are kept and replayed.
///
/// Made where the types are known to serialise; from then on nobody has to ask that of them again.
#[derive(Debug)]
pub struct Keep<R> {
    verdict: fn(&Run, &R) -> Verdict,
    failed: fn(&R) -> bool,
    replay: fn(&Answer) -> Result<R, ReplayError>,
}

impl<R> Clone for Keep<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Keep<R> {}

impl<T, E> Keep<Result<T, E>> {
    /// `Ok` is final, `Err` is not.
    pub const fn ok() -> Self
    where
        T: Serialize + DeserializeOwned,
    {
        Self { verdict: judge_ok, failed: Result::is_err, replay: replay_ok }
    }

    /// `Ok` and `Err` are final.
    pub const fn both() -> Self
    where
        T: Serialize + DeserializeOwned,
        E: Serialize + DeserializeOwned,
    {
        Self { verdict: judge_both, failed: Result::is_err, replay: replay_both }
    }
}

impl<R> Keep<R> {
    /// Work for [`Call::execute`](crate::call::Call::execute) that is judged when it ends.
    pub fn judging<F, Fut>(self, work: F) -> impl FnOnce(Run) -> Judged<R, Fut> + use<R, F, Fut>
    where
        F: FnOnce(Run) -> Fut,
        Fut: Future<Output = R>,
    {
        move |run| Judged { work: work(run.clone()), run, verdict: self.verdict }
    }

    /// Work for [`Call::execute_transaction`](crate::call::Call::execute_transaction) that is judged when it ends.
    pub fn judging_writes<T, F, Fut>(
        self,
        work: F,
    ) -> impl FnOnce(Tx<T>, Run) -> JudgedWrites<R, Fut> + use<T, R, F, Fut>
    where
        F: FnOnce(Tx<T>, Run) -> Fut,
        Fut: Future<Output = R>,
    {
        move |tx, run| JudgedWrites { work: work(tx, run.clone()), run, keep: self }
    }

    /// What becomes of the record, and of what was written in its transaction.
    fn judge(self, run: &Run, result: &R) -> (Verdict, Writes) {
        let verdict = (self.verdict)(run, result);
        let kept = matches!(verdict, Verdict::Complete(_)) && !(self.failed)(result);
        (verdict, if kept { Writes::Keep } else { Writes::Undo })
    }

    /// Reads a stored result back.
    ///
    /// # Errors
    ///
    /// When it is a tombstone, or not what the function's type reads.
    pub fn replay(self, answer: &Answer) -> Result<R, ReplayError> {
        (self.replay)(answer)
    }
}

pin_project_lite::pin_project! {
    /// The future of [`Keep::judging`], named so that it is `Send` exactly if the work's is.
    #[derive(Debug)]
    pub struct Judged<R, Fut> {
        #[pin]
        work: Fut,
        run: Run,
        verdict: fn(&Run, &R) -> Verdict,
    }
}

impl<R, Fut: Future<Output = R>> Future for Judged<R, Fut> {
    type Output = (R, Verdict);

    fn poll(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let this = self.project();
        this.work.poll(cx).map(|result| {
            let verdict = (this.verdict)(this.run, &result);
            (result, verdict)
        })
    }
}

pin_project_lite::pin_project! {
    /// The future of [`Keep::judging_writes`], named for the same reason.
    #[derive(Debug)]
    pub struct JudgedWrites<R, Fut> {
        #[pin]
        work: Fut,
        run: Run,
        keep: Keep<R>,
    }
}

impl<R, Fut: Future<Output = R>> Future for JudgedWrites<R, Fut> {
    type Output = (R, Verdict, Writes);

    fn poll(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let this = self.project();
        this.work.poll(cx).map(|result| {
            let (verdict, writes) = this.keep.judge(this.run, &result);
            (result, verdict, writes)
        })
    }
}

fn judge_ok<T: Serialize, E>(run: &Run, result: &Result<T, E>) -> Verdict {
    match (result, run.marked()) {
        (_, Some(Mark::Retryable)) => Verdict::Retryable,
        (Ok(_), Some(Mark::Tombstone)) => tombstone(Codec::JsonOk),
        (Ok(value), _) => complete(run, Codec::JsonOk, value),
        // Final, but an `Err` that is not kept cannot be replayed: what remains is that the work is done.
        (Err(_), Some(Mark::Final | Mark::Tombstone)) => tombstone(Codec::JsonErr),
        (Err(_), None) => Verdict::Fail,
    }
}

fn judge_both<T: Serialize, E: Serialize>(run: &Run, result: &Result<T, E>) -> Verdict {
    match (result, run.marked()) {
        (_, Some(Mark::Retryable)) => Verdict::Retryable,
        (Ok(_), Some(Mark::Tombstone)) => tombstone(Codec::JsonOk),
        (Err(_), Some(Mark::Tombstone)) => tombstone(Codec::JsonErr),
        (Ok(value), _) => complete(run, Codec::JsonOk, value),
        (Err(error), _) => complete(run, Codec::JsonErr, error),
    }
}

fn tombstone(codec: Codec) -> Verdict {
    Verdict::Complete(Answer::tombstone(codec))
}

/// The verdict on a value that is final.
pub(crate) fn kept<T: Serialize>(run: &Run, value: &T) -> Verdict {
    complete(run, Codec::JsonOk, value)
}

/// Keeps the value, or that there was one if it is too large or has no JSON form: it must not run again for that, nor
/// for a panic of its `Serialize`.
fn complete<T: Serialize>(run: &Run, codec: Codec, value: &T) -> Verdict {
    let limit = run.max_response_bytes().unwrap_or(usize::MAX);
    match catch_unwind(AssertUnwindSafe(|| Answer::json(codec, value))) {
        Ok(Ok(answer)) if answer.as_bytes().len() <= limit => Verdict::Complete(answer),
        Ok(Ok(answer)) => {
            let len = answer.as_bytes().len();
            tracing::warn!(
                len,
                limit,
                "the answer is over max_response_bytes; a retry will find a tombstone"
            );
            tombstone(codec)
        }
        Ok(Err(error)) => {
            tracing::error!(%error, "the answer has no JSON form; a retry will find a tombstone");
            tombstone(codec)
        }
        Err(_) => {
            tracing::error!("the answer panicked as it was serialised; a retry will find a tombstone");
            tombstone(codec)
        }
    }
}

/// Decodes a stored `Ok`.
fn replay_ok<T: DeserializeOwned, E>(answer: &Answer) -> Result<Result<T, E>, ReplayError> {
    replay_value(answer).map(Ok)
}

/// Decodes what a stored `Ok` holds.
pub(crate) fn replay_value<T: DeserializeOwned>(answer: &Answer) -> Result<T, ReplayError> {
    match answer.open()? {
        (AnswerKind::Tombstone, ..) => Err(ReplayError::Tombstone(Tombstone::default())),
        (AnswerKind::Full, Codec::JsonOk, json) => decode(&json),
        _ => Err(Undecodable::because("it is no `Ok` of a function").into()),
    }
}

/// Decodes a stored `Ok` or `Err`.
fn replay_both<T, E>(answer: &Answer) -> Result<Result<T, E>, ReplayError>
where
    T: DeserializeOwned,
    E: DeserializeOwned,
{
    match answer.open()? {
        (AnswerKind::Tombstone, ..) => Err(ReplayError::Tombstone(Tombstone::default())),
        (AnswerKind::Full, Codec::JsonOk, json) => decode(&json).map(Ok),
        (AnswerKind::Full, Codec::JsonErr, json) => decode(&json).map(Err),
        _ => Err(Undecodable::because("it is no result of a function").into()),
    }
}

fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, ReplayError> {
    // The cause is left out: serde_json quotes the text it stumbles over.
    serde_json::from_slice(json)
        .map_err(|_| Undecodable::because("its JSON is not what the function's type reads").into())
}
