//! Plain values: how the result of a function becomes a stored answer, and back.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::answer::{Answer, AnswerKind, Codec, Undecodable};
use crate::error::{ReplayError, Tombstone};
use crate::policy::{Mark, Verdict};
use crate::run::Run;

/// Runs `work`; its `Ok` is final, its `Err` is not.
pub(crate) fn keeping_ok<T, E, F, Fut>(work: F) -> impl FnOnce(Run) -> KeepingOk<Fut>
where
    T: Serialize,
    F: FnOnce(Run) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    move |run| KeepingOk { work: work(run.clone()), run }
}

pin_project_lite::pin_project! {
    /// The future of [`keeping_ok`], named so that it is `Send` exactly if the work's is.
    pub(crate) struct KeepingOk<Fut> {
        #[pin]
        work: Fut,
        run: Run,
    }
}

impl<T, E, Fut> Future for KeepingOk<Fut>
where
    T: Serialize,
    Fut: Future<Output = Result<T, E>>,
{
    type Output = (Result<T, E>, Verdict);

    fn poll(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let this = self.project();
        this.work.poll(cx).map(|result| {
            let verdict = match (&result, this.run.marked()) {
                (_, Some(Mark::Retryable)) => Verdict::Retryable,
                (Ok(_), Some(Mark::Tombstone)) => tombstone(Codec::JsonOk),
                (Ok(value), _) => complete(this.run, Codec::JsonOk, value),
                // Final, but an `Err` that is not kept cannot be replayed: what remains is that the work is done.
                (Err(_), Some(Mark::Final | Mark::Tombstone)) => tombstone(Codec::JsonErr),
                (Err(_), None) => Verdict::Fail,
            };
            (result, verdict)
        })
    }
}

/// Runs `work`; its `Ok` and its `Err` are final.
pub(crate) fn keeping_both<T, E, F, Fut>(work: F) -> impl FnOnce(Run) -> KeepingBoth<Fut>
where
    T: Serialize,
    E: Serialize,
    F: FnOnce(Run) -> Fut,
    Fut: Future<Output = Result<T, E>>,
{
    move |run| KeepingBoth { work: work(run.clone()), run }
}

pin_project_lite::pin_project! {
    /// The future of [`keeping_both`].
    pub(crate) struct KeepingBoth<Fut> {
        #[pin]
        work: Fut,
        run: Run,
    }
}

impl<T, E, Fut> Future for KeepingBoth<Fut>
where
    T: Serialize,
    E: Serialize,
    Fut: Future<Output = Result<T, E>>,
{
    type Output = (Result<T, E>, Verdict);

    fn poll(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        let this = self.project();
        this.work.poll(cx).map(|result| {
            let verdict = match (&result, this.run.marked()) {
                (_, Some(Mark::Retryable)) => Verdict::Retryable,
                (Ok(_), Some(Mark::Tombstone)) => tombstone(Codec::JsonOk),
                (Err(_), Some(Mark::Tombstone)) => tombstone(Codec::JsonErr),
                (Ok(value), _) => complete(this.run, Codec::JsonOk, value),
                (Err(error), _) => complete(this.run, Codec::JsonErr, error),
            };
            (result, verdict)
        })
    }
}

fn tombstone(codec: Codec) -> Verdict {
    Verdict::Complete(Answer::tombstone(codec))
}

/// Keeps the value, or that there was one if it is too large or has no JSON form: it must not run again for that.
fn complete<T: Serialize>(run: &Run, codec: Codec, value: &T) -> Verdict {
    let limit = run.max_response_bytes().unwrap_or(usize::MAX);
    match Answer::json(codec, value) {
        Ok(answer) if answer.as_bytes().len() <= limit => Verdict::Complete(answer),
        Ok(answer) => {
            let len = answer.as_bytes().len();
            tracing::warn!(
                len,
                limit,
                "the answer is over max_response_bytes; a retry will find a tombstone"
            );
            tombstone(codec)
        }
        Err(error) => {
            tracing::error!(%error, "the answer has no JSON form; a retry will find a tombstone");
            tombstone(codec)
        }
    }
}

/// Decodes a stored `Ok`.
pub(crate) fn replay_ok<T: DeserializeOwned, E>(answer: &Answer) -> Result<Result<T, E>, ReplayError> {
    match answer.open()? {
        (AnswerKind::Tombstone, ..) => Err(ReplayError::Tombstone(Tombstone::default())),
        (AnswerKind::Full, Codec::JsonOk, json) => decode(&json).map(Ok),
        _ => Err(Undecodable("it is no `Ok` of a function").into()),
    }
}

/// Decodes a stored `Ok` or `Err`.
pub(crate) fn replay_both<T, E>(answer: &Answer) -> Result<Result<T, E>, ReplayError>
where
    T: DeserializeOwned,
    E: DeserializeOwned,
{
    match answer.open()? {
        (AnswerKind::Tombstone, ..) => Err(ReplayError::Tombstone(Tombstone::default())),
        (AnswerKind::Full, Codec::JsonOk, json) => decode(&json).map(Ok),
        (AnswerKind::Full, Codec::JsonErr, json) => decode(&json).map(Err),
        _ => Err(Undecodable("it is no result of a function").into()),
    }
}

fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, ReplayError> {
    // The cause is left out: serde_json quotes the text it stumbles over.
    serde_json::from_slice(json)
        .map_err(|_| Undecodable("its JSON is not what the function's type reads").into())
}
