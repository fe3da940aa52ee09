//! One call on its way: claim, run, complete or release, each fenced by the owner.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Either;

use crate::answer::{Answer, Codec};
use crate::background::{self, Offer};
use crate::boarding::Grant;
use crate::cancel::CancelOnDrop;
use crate::config::Config;
use crate::detach::{Abandon, Detach};
use crate::engine::Idempotency;
use crate::error::{Error, ErrorKind};
use crate::lease::{Abort, Held, Ticket};
use crate::new_keys::Slot;
use crate::outcome::Stored;
use crate::owner::Owner;
use crate::policy::{OnCrash, Policy, Verdict};
use crate::record::{Record, RecordId, State};
use crate::run::{RUN, Run};
use crate::store::{Claim, Claimed, Fenced, Release, StoreError};
use crate::sync::{AtomicBool, FAR, Instant, Ordering};
use crate::telemetry::Trouble;
use crate::tracker::Active;
use crate::within::{UNANSWERED, repeated, within};

/// One call on its way; shared by the caller's future, the run and what goes on in the background.
pub(crate) struct Flight {
    engine: Idempotency,
    id: RecordId,
    claim: Claim,
    policy: Policy,
    /// Whose new keys are counted, if any are.
    slot: Option<Slot>,
    /// Whether the caller has gone away.
    abandoned: AtomicBool,
    /// Whether a try to claim was not answered: it may come to hold the key whatever a later one was told.
    in_doubt: AtomicBool,
}

/// How a run ended.
pub(crate) enum End<R> {
    /// It ended, and what its verdict says of the record is done or on its way.
    Fresh(R),
    /// It ended, but the record was not its own any more. What failed is still the caller's to know.
    Fenced { failed: Option<R> },
    /// It was aborted.
    Aborted(Abort),
}

impl Abandon for Arc<Flight> {
    fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
    }
}

impl Flight {
    pub(crate) fn new(
        engine: Idempotency,
        id: RecordId,
        claim: Claim,
        policy: Policy,
        slot: Option<Slot>,
    ) -> Arc<Self> {
        let (abandoned, in_doubt) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { engine, id, claim, policy, slot, abandoned, in_doubt })
    }

    /// The flight that claims after this one was refused: the same, or, while what this one may come to hold is given
    /// back, one with another owner.
    pub(crate) fn again(self: &Arc<Self>) -> Arc<Self> {
        if !self.in_doubt.load(Ordering::Acquire) {
            return self.clone();
        }
        let claim = Claim { owner: Owner::random(), ..self.claim.clone() };
        Self::new(self.engine.clone(), self.id.clone(), claim, self.policy, self.slot)
    }

    /// Notes how a try to claim failed.
    pub(crate) fn doubt(&self, error: &StoreError) {
        if UNANSWERED.contains(&error.kind()) {
            self.in_doubt.store(true, Ordering::Release);
        }
    }

    /// Gives back what a try that was not answered may hold, or come to hold: nothing runs under this claim, or will.
    pub(crate) fn settle_doubt(self: &Arc<Self>) {
        if self.in_doubt.load(Ordering::Acquire) {
            background::clear(self.clone());
        }
    }

    pub(crate) fn id(&self) -> &RecordId {
        &self.id
    }

    pub(crate) fn config(&self) -> &Config {
        self.engine.config()
    }

    pub(crate) fn engine(&self) -> &Idempotency {
        &self.engine
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst)
    }

    pub(crate) fn store_timeout(&self) -> Duration {
        self.engine.0.config.store_timeout
    }

    /// Whose new keys are counted, if any are.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slot
    }

    /// The claim as it is made.
    pub(crate) fn asked(&self) -> &Claim {
        &self.claim
    }

    /// Gives back a claim under which nothing ran.
    ///
    /// What an earlier attempt bound stays bound.
    pub(crate) async fn undo(self: &Arc<Self>, grant: Grant) {
        let _ = self.release(self.undoing(), grant.active).await;
    }

    /// How to give back a claim under which nothing ran.
    pub(crate) fn undoing(&self) -> Release {
        Release::Undo(self.policy.ttl)
    }

    /// What a failure does to the record.
    pub(crate) fn failing(&self) -> Release {
        match self.policy.on_crash {
            OnCrash::Retry => Release::KeepBinding(self.policy.ttl),
            OnCrash::Reject => Release::Unknown,
        }
    }

    /// Runs the work under the lease, and does with the record what the verdict says.
    ///
    /// A panic of the work frees the key, then goes on to the caller. With `inline` only the end is safe from a
    /// caller that goes away; otherwise all of this already is.
    pub(crate) async fn run<R, F, Fut>(self: &Arc<Self>, grant: Grant, work: F, inline: bool) -> End<R>
    where
        F: FnOnce(Run) -> Fut,
        Fut: Future<Output = (R, Verdict)>,
    {
        let Grant { attempt, since, active } = grant;
        let run = Run::new(self.clone(), attempt);
        let cancel = inline.then(|| CancelOnDrop::new(self));
        let held = self.held(since);
        let work = RUN.scope(run.clone(), async move { work(run).await });
        let guarded = self.engine.0.leases.guard(held, AssertUnwindSafe(work).catch_unwind()).await;
        // From here on the end is written, whoever hears of it.
        if let Some(cancel) = cancel {
            cancel.disarm();
        }
        // The ticket keeps the lease renewed until then.
        let (end, ticket, verdict) = match guarded {
            Ok((Ok((result, verdict)), ticket)) => (Ok(result), ticket, verdict),
            Ok((Err(panic), ticket)) => (Err(Some(panic)), ticket, Verdict::Fail),
            Err(Abort::Lost) => {
                self.settle_doubt();
                return End::Aborted(Abort::Lost);
            }
            Err(Abort::Over) => (Err(None), None, Verdict::Fail),
        };
        let failed = !matches!(verdict, Verdict::Complete(_));
        let this = self.clone();
        let conclude = async move { this.conclude(verdict, active, since, ticket).await };
        let fenced = if inline {
            let carry = self.engine.0.config.carry.as_ref();
            Either::Left(Detach::new(self.clone(), carry, conclude))
        } else {
            Either::Right(conclude)
        }
        .await;
        match (end, fenced) {
            (Ok(result), Fenced::Held) => End::Fresh(result),
            (Ok(result), Fenced::Lost) => End::Fenced { failed: failed.then_some(result) },
            (Err(Some(panic)), _) => resume_unwind(panic),
            (Err(None), _) => End::Aborted(Abort::Over),
        }
    }

    /// What is known of a lease that was claimed then.
    fn held(&self, since: Instant) -> Held {
        Held {
            id: self.id.clone(),
            owner: self.claim.owner,
            lease: self.claim.lease.min(FAR),
            since,
            max_run: self.policy.max_run.min(FAR),
        }
    }

    async fn conclude(
        self: Arc<Self>,
        verdict: Verdict,
        active: Active,
        since: Instant,
        ticket: Option<Ticket>,
    ) -> Fenced {
        let how = match verdict {
            Verdict::Complete(answer) => return self.complete(answer, active, since, ticket).await,
            Verdict::Fail => self.failing(),
            Verdict::Retryable => Release::KeepBinding(self.policy.ttl),
            Verdict::Undo => self.undoing(),
        };
        self.release(how, active).await
    }

    /// The answer as the store keeps it.
    pub(crate) fn seal(&self, answer: Answer) -> Answer {
        self.config().seal(&self.id, answer)
    }

    /// A stored answer on its way to its caller.
    pub(crate) fn opened(&self, answer: Answer, expires_in: Duration) -> Result<Stored, Error> {
        match self.config().open(&self.id, answer) {
            Ok(answer) => Ok(Stored::new(answer, expires_in)),
            Err(error) => Err(Error::from_replay(error.into()).at(&self.id)),
        }
    }

    /// Stores the answer; if the store cannot say, goes on in the background and counts as held.
    async fn complete(
        self: &Arc<Self>,
        answer: Answer,
        active: Active,
        since: Instant,
        ticket: Option<Ticket>,
    ) -> Fenced {
        let sealed = self.seal(answer.clone());
        match self.try_complete(&sealed).await {
            Ok(fenced) => fenced,
            Err(error) => {
                Trouble::AnswerDelayed.tell(&self.id, Some(&error));
                // Nobody may take over what is done, so the lease must not run out meanwhile. The run's own ticket may have
                // been found lost by our own clock just before the run ended.
                let held = self.engine.0.leases.hold(self.held(since));
                drop(ticket);
                let instead = answer.open().map_or(Codec::JsonOk, |(_, codec, _)| codec);
                let offer = Offer { answer: sealed, instead: self.seal(Answer::tombstone(instead)) };
                background::complete(self.clone(), offer, error, active, held);
                Fenced::Held
            }
        }
    }

    /// Asks the store once to take the answer, which is sealed.
    pub(crate) async fn try_complete(self: &Arc<Self>, sealed: &Answer) -> Result<Fenced, StoreError> {
        let shared = &self.engine.0;
        let step = shared.store.complete(&self.id, self.claim.owner, sealed, self.policy.retention());
        let fenced = within(self.store_timeout(), step).await?;
        if fenced == Fenced::Lost {
            self.settle_doubt();
        }
        Ok(fenced)
    }

    /// Releases the claim; if the store cannot say, goes on in the background and counts as held.
    async fn release(self: &Arc<Self>, how: Release, active: Active) -> Fenced {
        match self.try_release(how).await {
            Ok(fenced) => fenced,
            Err(error) => {
                Trouble::ReleaseDelayed.tell(&self.id, Some(&error));
                background::release(self.clone(), how, active);
                Fenced::Held
            }
        }
    }

    pub(crate) async fn try_release(self: &Arc<Self>, how: Release) -> Result<Fenced, StoreError> {
        let fenced = self.ask_release(how).await?;
        // What is free can be had by a claim that is still under way.
        self.settle_doubt();
        Ok(fenced)
    }

    /// Asks the store once to release the claim, and no more.
    pub(crate) async fn ask_release(&self, how: Release) -> Result<Fenced, StoreError> {
        let step = self.engine.0.store.release(&self.id, self.claim.owner, how);
        within(self.store_timeout(), step).await
    }

    pub(crate) async fn try_look_up(&self) -> Result<Option<Record>, StoreError> {
        repeated(self.store_timeout(), UNANSWERED, || self.engine.0.store.look_up(&self.id)).await
    }

    pub(crate) async fn changed(&self, at_most: Duration) {
        self.engine.0.store.changed(&self.id, at_most).await;
    }

    /// How long the claim was asked to hold.
    pub(crate) fn lease(&self) -> Duration {
        self.claim.lease
    }

    /// Counts as under way, whatever the limit: what is begun must be ended.
    pub(crate) fn enter(&self) -> Active {
        self.engine.0.tracker.enter()
    }

    /// What the record says to a holder that lost it.
    pub(crate) async fn verdict_of_record(&self) -> Result<Stored, Error> {
        let lost = |error: Error| error.at(&self.id);
        match self.try_look_up().await {
            Err(error) => Err(lost(Error::new(ErrorKind::LeaseLost).with_source(error))),
            Ok(None) => Err(lost(Error::new(ErrorKind::LeaseLost))),
            Ok(Some(record)) => match self.judge(record) {
                Some(Claimed::Completed { answer, expires_in }) => self.opened(answer, expires_in),
                Some(Claimed::InFlight { lease_left }) => {
                    let error = Error::new(ErrorKind::InFlight);
                    Err(lost(error).in_state(State::InFlight, Some(lease_left)))
                }
                Some(Claimed::Unknown) => Err(lost(Error::new(ErrorKind::OutcomeUnknown))),
                _ => Err(lost(Error::new(ErrorKind::LeaseLost))),
            },
        }
    }

    /// The error for a claim that was refused for good.
    pub(crate) fn refusal(&self, claimed: &Claimed) -> Error {
        let error = match claimed {
            Claimed::InFlight { lease_left } => {
                Error::new(ErrorKind::InFlight).in_state(State::InFlight, Some(*lease_left))
            }
            Claimed::Mismatch => Error::new(ErrorKind::Mismatch),
            Claimed::Expired => Error::new(ErrorKind::KeyExpired).in_state(State::Expired, None),
            Claimed::Unknown => Error::new(ErrorKind::OutcomeUnknown).in_state(State::Unknown, None),
            Claimed::Incomparable => Error::new(ErrorKind::Undecodable)
                .with_detail("its fingerprint is of a version or secret that this release does not have"),
            Claimed::Granted { .. } | Claimed::Completed { .. } => Error::new(ErrorKind::Misuse),
        };
        error.at(&self.id)
    }
}
