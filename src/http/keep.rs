//! What is kept of a response, and what its first caller gets.

use std::time::Duration;

use http::header::{CONTENT_TYPE, HeaderMap};
use http::response::Parts;
use http_body::Body;
use idem_core::call::Call;
use idem_core::http::policy::HttpPolicy;
use idem_core::http::response::{encode, encode_with_trailers, tombstone};
use idem_core::http::status::{self, Keep};
use idem_core::policy::{Mark, Verdict};
use idem_core::run::Run;
use idem_core::transaction::Writes;

use super::body::{Buffered, Resumed, buffer};
use super::manners::Manners;
use super::reply::Reply;

/// What is left to decide once a handler has ended.
pub(super) struct Keeper {
    manners: Manners,
    /// The longest response that is stored, in bytes.
    limit: usize,
    ttl: Duration,
    /// Whether extractors run after the claim, so that what they reject has to be told by its status.
    before_extractors: bool,
}

/// What an annotated handler under a layer, which keeps its response, says becomes of it: an extension.
///
/// Its extractors have run, so a 422 is its own, and its `store_if` counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Judged(Keep);

impl Judged {
    /// Judges a response that a layer further out keeps.
    pub(super) fn put_on<R: Reply>(reply: R, http: &HttpPolicy) -> R::Sent {
        match reply.apart() {
            Ok((response, rest)) => {
                let (mut parts, body) = response.into_parts();
                let kept = http.keep(&parts);
                parts.extensions.insert(Self(kept));
                unread::<R>(parts, body, rest)
            }
            Err(failed) => failed,
        }
    }
}

impl Keeper {
    pub(super) fn new<S>(manners: Manners, call: &Call<S>, before_extractors: bool) -> Self {
        let limit = manners.http().response_limit().unwrap_or(call.engine().config().max_response_bytes());
        Self { manners, limit, ttl: call.policy().ttl, before_extractors }
    }

    /// Runs a handler and decides what becomes of its record.
    pub(super) async fn watch<R: Reply>(
        self,
        run: Run,
        handler: impl Future<Output = R>,
    ) -> (R::Sent, Verdict) {
        let (response, rest) = match handler.await.apart() {
            Ok(apart) => apart,
            Err(failed) => return (failed, Verdict::Fail),
        };
        let (parts, body, mark) = self.marked(&run, response);
        if !run.is_protected() {
            return (self.unread::<R>(parts, body, rest), Verdict::Undo);
        }
        let plan = self.plan(&parts, mark);
        self.carry_out::<R>(plan, parts, body, rest).await
    }

    /// As [`watch`](Self::watch), and decides what becomes of the writes: kept is what was done with success and has an
    /// answer that would be stored.
    pub(super) async fn watch_writes<R: Reply>(
        self,
        run: Run,
        handler: impl Future<Output = (R, Writes)>,
    ) -> (R::Sent, Verdict, Writes) {
        let (reply, asked) = handler.await;
        let (response, rest) = match reply.apart() {
            Ok(apart) => apart,
            Err(failed) => return (failed, Verdict::Fail, Writes::Undo),
        };
        let (parts, body, mark) = self.marked(&run, response);
        let plan = self.plan(&parts, mark);
        let writes = if parts.status.is_server_error() || !plan.keeps() { Writes::Undo } else { asked };
        if !run.is_protected() {
            return (self.unread::<R>(parts, body, rest), Verdict::Undo, writes);
        }
        let (reply, verdict) = self.carry_out::<R>(plan, parts, body, rest).await;
        (reply, verdict, writes)
    }

    /// Takes a response apart, and the mark off it; the response's own mark was set last.
    fn marked<B>(&self, run: &Run, response: http::Response<B>) -> (Parts, B, Option<Mark>) {
        let (mut parts, body) = response.into_parts();
        // A handler that passes on what another service replayed to it has run all the same.
        parts.headers.remove(self.manners.marker());
        let mark = parts.extensions.remove::<Mark>().or_else(|| run.marked());
        (parts, body, mark)
    }

    /// Decides by the mark, then by what an annotated handler says, then by the predicate, then by the status.
    fn plan(&self, parts: &Parts, mark: Option<Mark>) -> Plan {
        let judged = parts.extensions.get::<Judged>();
        let http = self.manners.http();
        let kept = match (mark, judged) {
            (Some(Mark::Final), _) => Keep::Answer,
            (Some(Mark::Tombstone), _) => Keep::Tombstone,
            (Some(Mark::Retryable), _) => return Plan::Pass(Verdict::Retryable),
            (None, Some(Judged(kept))) => *kept,
            (None, None) if !http.asks() && self.may_be_rejected(parts) => Keep::Nothing,
            (None, None) => http.keep(parts),
        };
        match kept {
            // The handler has not begun.
            Keep::Nothing if judged.is_none() && self.may_be_rejected(parts) => Plan::Pass(Verdict::Undo),
            Keep::Nothing => Plan::Pass(Verdict::Fail),
            // An upgraded connection, or a stream without an end, cannot be kept whatever anybody says.
            Keep::Answer if !parts.status.is_informational() && !is_endless(&parts.headers) => Plan::Store,
            Keep::Answer | Keep::Tombstone => {
                Plan::Pass(Verdict::Complete(tombstone(parts.status, &parts.headers)))
            }
        }
    }

    /// Whether a response may be that of an extractor.
    fn may_be_rejected(&self, parts: &Parts) -> bool {
        self.before_extractors && status::is_rejection(parts.status)
    }

    /// Makes a reply whose body nobody has read.
    fn unread<R: Reply>(&self, mut parts: Parts, body: R::Body, rest: R::Rest) -> R::Sent {
        self.manners.greet(&mut parts.headers);
        unread::<R>(parts, body, rest)
    }

    async fn carry_out<R: Reply>(
        &self,
        plan: Plan,
        parts: Parts,
        body: R::Body,
        rest: R::Rest,
    ) -> (R::Sent, Verdict) {
        match plan {
            Plan::Store => {
                let (mut response, verdict) = self.store(parts, body).await;
                self.manners.greet(response.headers_mut());
                (R::whole(response, rest), verdict)
            }
            Plan::Pass(verdict) => (self.unread::<R>(parts, body, rest), verdict),
        }
    }

    /// Reads the body and makes the answer to store; the first caller gets the whole response in every case.
    ///
    /// What turns out to be too long is handed on with what was read of it, and streams on. A body that breaks off was
    /// begun by a handler that had done its work and said so: the record becomes a tombstone too, since a truncated
    /// answer must not be replayed and the work must not be done again.
    async fn store<B: Body + Unpin>(
        &self,
        mut parts: Parts,
        body: B,
    ) -> (http::Response<Resumed<B>>, Verdict) {
        let (body, answer) = match buffer(body, self.limit).await {
            Buffered::Whole { bytes, trailers } => {
                let answer = match &trailers {
                    None => encode(parts.status, &parts.headers, &bytes),
                    Some(trailers) => encode_with_trailers(parts.status, &parts.headers, &bytes, trailers),
                };
                self.manners.tell_expiry(&mut parts.headers, self.ttl);
                (Resumed::again(bytes, trailers), answer)
            }
            Buffered::TooLong(body) => (body, tombstone(parts.status, &parts.headers)),
            Buffered::Broken(bytes, error) => {
                (Resumed::broken(bytes, error), tombstone(parts.status, &parts.headers))
            }
        };
        (http::Response::from_parts(parts, body), Verdict::Complete(answer))
    }
}

/// Makes a reply whose body nobody has read.
fn unread<R: Reply>(parts: Parts, body: R::Body, rest: R::Rest) -> R::Sent {
    R::whole(http::Response::from_parts(parts, Resumed::unread(body)), rest)
}

/// What becomes of the record, as far as status, headers and marks say.
enum Plan {
    /// The body is read and stored, if it can be.
    Store,
    /// The body passes; this is the verdict.
    Pass(Verdict),
}

impl Plan {
    /// Whether there is to be an answer in the record.
    fn keeps(&self) -> bool {
        matches!(self, Self::Store | Self::Pass(Verdict::Complete(_)))
    }
}

/// Media types whose senders mean to go on for ever; waiting for their end would starve the first caller.
fn is_endless(headers: &HeaderMap) -> bool {
    let essence = headers.get(CONTENT_TYPE).map_or(&b""[..], |value| {
        value.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
    });
    essence.eq_ignore_ascii_case(b"text/event-stream")
        || essence.eq_ignore_ascii_case(b"multipart/x-mixed-replace")
}
