//! What others got wrong, refuted: each with a counterexample to the promise it breaks.

use std::collections::BTreeSet;

use idem_model::config::Config;
use idem_model::model::{Ask, IdemModel};
use idem_model::mutant::Mutant;
use idem_model::properties as p;
use idem_model::search::refute;
use stateright::Model;

/// Expects that the checker finds a way to break this very promise.
fn refuted(mutant: Mutant, promise: &str) {
    assert_eq!(mutant.breaks(), promise);
    let Some(path) = refute(mutant) else {
        panic!("{mutant:?} gets away with it: \"{promise}\" holds in {}", mutant.config().name);
    };
    let actions = path.into_actions();
    assert!(!actions.is_empty(), "\"{promise}\" is false before anything happened");
    println!("{mutant:?} breaks \"{promise}\" in {} steps: {actions:#?}", actions.len());
}

#[test]
fn every_promise_has_a_mutant_that_breaks_it() {
    let broken: BTreeSet<_> = Mutant::ALL.into_iter().map(Mutant::breaks).collect();
    for config in Config::all() {
        for promise in IdemModel::honest(config, Ask::Promises).properties() {
            assert!(broken.contains(promise.name), "nothing breaks \"{}\"", promise.name);
        }
    }
}

#[test]
fn every_mutant_is_listed_once() {
    let names: BTreeSet<_> = Mutant::ALL.iter().map(|mutant| format!("{mutant:?}")).collect();
    assert_eq!(names.len(), Mutant::ALL.len());
}

#[test]
fn complete_without_its_owner_check_is_refuted() {
    refuted(Mutant::CompleteWithoutOwner, p::STALE_OWNER);
}

#[test]
fn release_without_its_owner_check_is_refuted() {
    refuted(Mutant::ReleaseWithoutOwner, p::STALE_OWNER);
}

#[test]
fn renew_without_its_owner_check_is_refuted() {
    refuted(Mutant::RenewWithoutOwner, p::ONE_LEASE);
}

#[test]
fn an_attempt_counter_in_place_of_the_owner_is_refuted() {
    refuted(Mutant::CounterForOwner, p::STALE_OWNER);
}

#[test]
fn a_claim_that_reads_and_then_writes_is_refuted() {
    refuted(Mutant::GetThenSet, p::ONE_LEASE);
}

#[test]
fn running_because_the_rival_row_has_gone_is_refuted() {
    refuted(Mutant::RunUnclaimed, p::ONE_LEASE);
}

#[test]
fn a_claim_without_a_lease_is_refuted() {
    refuted(Mutant::NoLease, p::ONE_LEASE);
}

#[test]
fn a_claim_without_a_deadline_is_refuted() {
    refuted(Mutant::LeaseForever, p::NOT_FOR_EVER);
}

#[test]
fn a_lease_that_is_the_expiry_of_the_record_is_refuted() {
    refuted(Mutant::LeaseIsTtl, p::BOUND);
}

#[test]
fn a_sweeper_that_takes_live_claims_is_refuted() {
    refuted(Mutant::SweepLive, p::ONE_LEASE);
}

#[test]
fn a_sweeper_that_takes_lapsed_claims_is_refuted() {
    refuted(Mutant::SweepLapsed, p::SWEEP_UNSEEN);
}

#[test]
fn a_completion_that_overwrites_an_answer_is_refuted() {
    refuted(Mutant::CompletionOverwrites, p::ONE_ANSWER);
}

#[test]
fn a_late_renewal_of_an_answered_record_is_refuted() {
    refuted(Mutant::RenewAnswered, p::WHOLE_TTL);
}

#[test]
fn a_fence_that_lets_expired_holders_pass_is_refuted() {
    refuted(Mutant::FenceIgnoresExpiry, p::SWEEP_UNSEEN);
}

#[test]
fn in_flight_before_mismatch_is_refuted() {
    refuted(Mutant::InFlightBeforeMismatch, p::MISMATCH_FIRST);
}

#[test]
fn a_take_over_by_another_payload_is_refuted() {
    refuted(Mutant::TakeOverSkipsMismatch, p::BOUND);
}

#[test]
fn a_look_up_that_does_not_compare_payloads_is_refuted() {
    refuted(Mutant::LookUpSkipsMismatch, p::TRUE_REPLAY);
}

#[test]
fn a_failure_that_frees_the_binding_is_refuted() {
    refuted(Mutant::FailureForgets, p::BOUND);
}

#[test]
fn an_unused_claim_that_takes_earlier_bindings_along_is_refuted() {
    refuted(Mutant::UndoForgetsEarlier, p::BOUND);
}

#[test]
fn an_unused_claim_given_back_by_what_a_look_said_is_refuted() {
    refuted(Mutant::UndoDecidedByLook, p::BOUND);
}

#[test]
fn on_crash_reject_taken_for_retry_is_refuted() {
    refuted(Mutant::OnCrashIgnored, p::REJECT_ONCE);
}

#[test]
fn an_unknown_outcome_that_expires_is_refuted() {
    refuted(Mutant::UnknownExpires, p::REJECT_ONCE);
}

#[test]
fn a_ttl_that_counts_from_the_claim_is_refuted() {
    refuted(Mutant::TtlFromClaim, p::WHOLE_TTL);
}

#[test]
fn a_replay_that_extends_the_ttl_is_refuted() {
    refuted(Mutant::ReplayExtends, p::WHOLE_TTL);
}

#[test]
fn a_sweeper_that_takes_tombstones_is_refuted() {
    refuted(Mutant::TombstoneSwept, p::WHOLE_TTL);
}

#[test]
fn a_repeated_claim_told_in_flight_is_refuted() {
    refuted(Mutant::RepeatedClaimRefused, p::REPEATABLE);
}

#[test]
fn a_repeated_completion_told_lost_is_refuted() {
    refuted(Mutant::RepeatedCompleteRefused, p::REPEATABLE);
}

#[test]
fn a_take_over_under_the_same_attempt_is_refuted() {
    refuted(Mutant::TakeOverKeepsAttempt, p::ATTEMPTS);
}

#[test]
fn a_failed_write_taken_for_a_failed_handler_is_refuted() {
    refuted(Mutant::FailedWriteReleases, p::FEW_EFFECTS);
}

#[test]
fn renewal_without_a_ceiling_is_refuted() {
    refuted(Mutant::RenewForever, p::CEILING);
}
