//! Faults in how a claim is understood, decided and answered.

use std::time::Duration;

use idem_core::fingerprint::{Comparison, Fingerprint, Fingerprints};
use idem_core::record::{Record, RecordId, State};
use idem_core::store::{Claim, Claimed, OnCrash, Store as _, StoreError};

use super::{Faulty, HOUR, Known};
use crate::faults::Fault;

fn different(claim: &Claim, stored: &Fingerprint) -> bool {
    claim.fingerprints.compare(stored) == Comparison::Different
}

impl Faulty {
    /// The claim as this store understands it.
    pub(super) fn distort(&self, claim: &Claim) -> Claim {
        let mut claim =
            Claim { lease: self.span(claim.lease), binding: self.span(claim.binding), ..claim.clone() };
        let current = *claim.fingerprints.current();
        match self.fault {
            Fault::ExpiresWithTheLease => claim.binding = Duration::ZERO,
            Fault::AlwaysRetries => claim.on_crash = OnCrash::Retry,
            Fault::NeverRetries => claim.on_crash = OnCrash::Reject,
            Fault::ComparesTheCurrentFingerprintOnly => claim.fingerprints = Fingerprints::new(current),
            Fault::BindsToTheOldestFingerprint => {
                let mut all: Vec<_> = claim.fingerprints.iter().copied().collect();
                all.reverse();
                claim.fingerprints =
                    all.iter().skip(1).fold(Fingerprints::new(all[0]), |prints, print| prints.with(*print));
            }
            Fault::ComparesNoFingerprintAsAValue if current.version() == 0 => {
                let mut bytes = [0; Fingerprint::ENCODED_LEN];
                bytes[0] = 1;
                claim.fingerprints = Fingerprints::new(Fingerprint::from_bytes(&bytes).expect("37 bytes"));
            }
            Fault::NeverRebinds => claim.rebind = false,
            _ => {}
        }
        claim
    }

    /// Faults that decide before the store is asked.
    pub(super) async fn preempt(
        &self,
        id: &RecordId,
        claim: &Claim,
        before: Option<&Record>,
    ) -> Result<Option<Claimed>, StoreError> {
        let known = self.known(id);
        Ok(match (self.fault, before, known) {
            (Fault::RepeatsWithoutRenewing, Some(before), Some(known))
                if known.claim.owner == claim.owner
                    && matches!(before.state, State::InFlight | State::Lapsed) =>
            {
                Some(Claimed::Granted { attempt: known.attempt })
            }
            (Fault::ComparesBeforeExpiry, None, Some(known))
                if different(claim, known.claim.fingerprints.current()) =>
            {
                Some(Claimed::Mismatch)
            }
            (Fault::ReplaysUntilItIsSwept, None, Some(Known { completed: Some((_, answer, _)), .. })) => {
                Some(Claimed::Completed { answer, expires_in: HOUR })
            }
            (Fault::LetsTheFinderDecide, Some(before), Some(known))
                if before.state == State::Unknown && known.released.is_none() =>
            {
                self.forget(id).await?;
                None
            }
            (Fault::ShutsTheHolderOut, Some(before), _) if before.state == State::Unknown => {
                Some(Claimed::Unknown)
            }
            (Fault::TakesOverAsNew, Some(before), Some(known))
                if before.state == State::Lapsed && known.claim.owner != claim.owner =>
            {
                self.forget(id).await?;
                let _ = self.inner.claim(id, claim).await?;
                Some(Claimed::Granted { attempt: before.attempt + 1 })
            }
            _ => None,
        })
    }

    /// Faults in what the store answers.
    pub(super) async fn twist(
        &self,
        id: &RecordId,
        claim: &Claim,
        before: Option<Record>,
        claimed: Claimed,
    ) -> Result<Claimed, StoreError> {
        let known = self.known(id);
        let repeats = known.as_ref().is_some_and(|known| known.claim.owner == claim.owner);
        let held_once = known.as_ref().is_some_and(|known| known.owners.contains_key(&claim.owner));
        let state = before.as_ref().map(|before| before.state);
        let attempt = before.as_ref().map_or(1, |before| before.attempt);
        let unbound = Claim { fingerprints: Fingerprints::none(), ..claim.clone() };
        Ok(match (self.fault, claimed) {
            (Fault::DecidesInFlightFirst, Claimed::Mismatch) if state == Some(State::InFlight) => {
                Claimed::InFlight { lease_left: HOUR }
            }
            (Fault::DoesNotCompare(of), Claimed::Mismatch) if state == Some(of) => {
                self.inner.claim(id, &unbound).await?
            }
            (Fault::RebindsEverything, Claimed::Mismatch) if claim.rebind => {
                self.inner.claim(id, &unbound).await?
            }
            (Fault::ComparesBeforeTombstones, Claimed::Expired)
                if before.as_ref().is_some_and(|before| different(claim, &before.fingerprint)) =>
            {
                Claimed::Mismatch
            }
            (Fault::TakesAnotherVersionForAMismatch, Claimed::Incomparable) => Claimed::Mismatch,
            (Fault::RefusesARepeatedClaim, Claimed::Granted { .. })
                if repeats && state == Some(State::InFlight) =>
            {
                Claimed::InFlight { lease_left: HOUR }
            }
            (Fault::CountsARepeatAsAnAttempt, Claimed::Granted { attempt }) if repeats => {
                Claimed::Granted { attempt: attempt + 1 }
            }
            (Fault::CountsNothing, Claimed::Granted { .. }) => Claimed::Granted { attempt: 1 },
            (Fault::IsAPlainSet, Claimed::InFlight { .. }) => Claimed::Granted { attempt },
            (Fault::LooksThenClaims, Claimed::InFlight { .. })
                if matches!(state, None | Some(State::Lapsed | State::Failed)) =>
            {
                Claimed::Granted { attempt: before.map_or(1, |before| before.attempt + 1) }
            }
            (Fault::GivesBackToTheLate, Claimed::InFlight { .. })
            | (Fault::RunsAnewForTheOwner, Claimed::Completed { .. })
                if held_once =>
            {
                Claimed::Granted { attempt: 1 }
            }
            (Fault::TellsTheWholeLease, Claimed::InFlight { .. }) => {
                Claimed::InFlight { lease_left: claim.lease }
            }
            (Fault::RejectsBeforeTheLapse, Claimed::InFlight { .. })
                if known.as_ref().is_some_and(|known| known.claim.on_crash == OnCrash::Reject) =>
            {
                Claimed::Unknown
            }
            (Fault::ExtendsForTheRefused, refused @ (Claimed::InFlight { .. } | Claimed::Mismatch)) => {
                if let Some(known) = known {
                    let _ = self.inner.renew(id, known.claim.owner, claim.lease).await?;
                }
                refused
            }
            (Fault::ExtendsForAReplay, replay @ Claimed::Completed { .. }) => {
                if let Some(Known { completed: Some((owner, answer, retention)), .. }) = known {
                    self.forget(id).await?;
                    let _ = self.inner.claim(id, &Claim { owner, ..unbound }).await?;
                    let _ = self.inner.complete(id, owner, &answer, retention).await?;
                }
                replay
            }
            (Fault::TakesEmptyForAbsent, Claimed::Completed { answer, .. })
                if answer.as_bytes().len() <= 4 =>
            {
                Claimed::Granted { attempt: 1 }
            }
            (_, claimed) => claimed,
        })
    }
}
