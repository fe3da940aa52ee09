//! The suite can fail: every fault is found by the cases that it should be found by, and every case finds a fault.

use std::collections::BTreeSet;
use std::time::Duration;

use idem_core::clock::ManualClock;
use idem_core::conformance::{CASES, Case, Failure, Subject};
use idem_core::record::State;

use crate::faulty::Faulty;

/// Each fault, and cases that must find it.
macro_rules! table {
    ($($fault:ident $(($state:ident))? => [$($case:ident)*],)*) => {
        const FAULTS: &[(Fault, &[&str])] =
            &[$((Fault::$fault $((State::$state))?, &[$(stringify!($case)),*]),)*];
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    CompletesForAnybody,
    RenewsForAnybody,
    ReleasesForAnybody,
    FencesByAttempt,
    FencesByAnyFormerOwner,
    FencesByHalfAToken,
    TakesTheLeaseForTheTtl,
    ExpiresWithTheLease,
    DecidesInFlightFirst,
    DoesNotCompare(State),
    ComparesBeforeExpiry,
    ComparesBeforeTombstones,
    TakesAnotherVersionForAMismatch,
    ComparesTheCurrentFingerprintOnly,
    BindsToTheOldestFingerprint,
    ComparesNoFingerprintAsAValue,
    TakesOverAsNew,
    NeverRebinds,
    RebindsEverything,
    IgnoresOperation,
    IgnoresScopeAndCase,
    RefusesARepeatedClaim,
    RepeatsWithoutRenewing,
    CountsARepeatAsAnAttempt,
    CountsNothing,
    IsAPlainSet,
    LooksThenClaims,
    LooksThenCompletes,
    GivesBackToTheLate,
    RunsAnewForTheOwner,
    TellsTheWholeLease,
    ExtendsForTheRefused,
    ExtendsForAReplay,
    KeepsTheLastAnswer,
    LosesARepeatedCompletion,
    CompletesForEver,
    LosesALateCompletion,
    LosesALateRelease,
    LosesALateRenewal,
    RenewsNothing,
    AddsRenewalsUp,
    CountsTheTtlFromTheClaim,
    ReplaysUntilItIsSwept,
    HasNoTombstones,
    RefusesForEver,
    RefusesAtOnce,
    WrapsDurations,
    TakesZeroForNotSet,
    ReleasesByForgetting,
    BindsForEver,
    BindsAsTheClaimSaid,
    BindsTheUndone,
    UndoesEarlierAttempts,
    KnowsNothingUnknown,
    ReleasesTheCompleted,
    ReleasesAgain,
    AlwaysRetries,
    NeverRetries,
    LetsTheFinderDecide,
    ShutsTheHolderOut,
    RejectsBeforeTheLapse,
    SettlesNothing,
    SettlesAnything,
    SettlesTheAbsent,
    SettlesWithoutBinding,
    ForgetsNothing,
    SweepsNothing,
    SweepsTheLive(State),
    SweepsWithoutLimit,
    CountsWhatItSweepsTwice,
    TakesEmptyForAbsent,
    StoresText,
    CutsAnswers,
    FindsTheAbsent,
    TellsLapsedAsInFlight,
    TellsTheAnswerOfTheExpired,
    TellsTheAgeOfTheAttempt,
    RenewsWhenLookedAt,
    WaitsForEver,
    SleepsInsteadOfWaiting,
    WaitsBeyondItsLimit,
}

table! {
    CompletesForAnybody => [
        a_late_owner_changes_nothing_after_a_take_over
        a_stale_owner_changes_nothing_after_release_and_reclaim
        a_stranger_changes_nothing
        forgetting_fences_the_holder
    ],
    RenewsForAnybody => [
        a_late_owner_changes_nothing_after_a_take_over
        a_stale_owner_changes_nothing_after_release_and_reclaim
        a_stranger_changes_nothing
    ],
    ReleasesForAnybody => [
        a_late_owner_changes_nothing_after_a_take_over
        a_stale_owner_changes_nothing_after_release_and_reclaim
        a_stranger_changes_nothing
    ],
    FencesByAttempt => [a_stale_owner_changes_nothing_after_release_and_reclaim],
    FencesByAnyFormerOwner => [
        a_stale_owner_changes_nothing_after_a_retry
        a_late_owner_changes_nothing_after_a_take_over
    ],
    FencesByHalfAToken => [owners_are_compared_to_the_last_bit],
    TakesTheLeaseForTheTtl => [an_answer_outlives_lease_and_binding],
    ExpiresWithTheLease => [
        a_record_outlives_its_lease
        a_lapsed_lease_is_taken_over
        another_payload_is_a_mismatch_after_the_lapse
        attempts_count_take_overs_and_retries
        every_state_is_told_as_what_it_is
        a_sweep_spares_what_is_live
    ],
    DecidesInFlightFirst => [another_payload_is_a_mismatch_while_in_flight],
    DoesNotCompare(Lapsed) => [another_payload_is_a_mismatch_after_the_lapse],
    DoesNotCompare(Failed) => [another_payload_is_a_mismatch_after_a_failure],
    DoesNotCompare(Completed) => [another_payload_is_a_mismatch_after_completion],
    DoesNotCompare(Unknown) => [another_payload_is_a_mismatch_while_unknown],
    ComparesBeforeExpiry => [
        expiry_is_decided_before_the_fingerprint
        a_lapsed_record_is_gone_after_its_binding
        an_undone_first_attempt_was_never_granted
    ],
    ComparesBeforeTombstones => [a_refused_key_is_refused_whatever_the_payload],
    TakesAnotherVersionForAMismatch => [the_version_is_decided_before_the_fingerprint],
    ComparesTheCurrentFingerprintOnly => [older_versions_and_secrets_are_recognised],
    BindsToTheOldestFingerprint => [a_record_is_bound_to_the_current_fingerprint],
    ComparesNoFingerprintAsAValue => [no_fingerprint_equals_any],
    TakesOverAsNew => [a_take_over_keeps_the_binding],
    NeverRebinds => [rebinding_frees_a_failed_record],
    RebindsEverything => [rebinding_frees_nothing_else],
    IgnoresOperation => [operations_do_not_meet],
    IgnoresScopeAndCase => [keys_are_compared_byte_for_byte scopes_do_not_meet],
    RefusesARepeatedClaim => [
        a_repeated_claim_is_granted_again
        racing_repeats_of_one_owner_are_one_attempt
        a_dropped_claim_leaves_the_store_usable
    ],
    RepeatsWithoutRenewing => [
        a_repeated_claim_renews_the_lease
        a_repeated_claim_after_the_lapse_is_the_same_attempt
    ],
    CountsARepeatAsAnAttempt => [
        a_repeated_claim_is_granted_again
        a_repeated_take_over_is_the_same_attempt
        a_repeated_claim_after_the_lapse_is_the_same_attempt
    ],
    CountsNothing => [
        attempts_count_take_overs_and_retries
        a_lapsed_lease_is_taken_over
        a_failed_record_is_free_at_once
    ],
    IsAPlainSet => [a_new_record_is_granted_and_held a_race_for_a_record_has_one_winner],
    LooksThenClaims => [
        a_race_for_a_record_has_one_winner
        races_for_many_records_have_one_winner_each
        a_race_to_take_over_has_one_winner
        a_race_to_retry_a_failed_record_has_one_winner
    ],
    LooksThenCompletes => [a_late_completion_and_a_take_over_exclude_each_other],
    GivesBackToTheLate => [a_late_owner_finds_its_successor_in_flight],
    RunsAnewForTheOwner => [a_completed_record_is_replayed],
    TellsTheWholeLease => [in_flight_tells_how_long_the_lease_lasts],
    ExtendsForTheRefused => [a_refused_claim_changes_nothing],
    ExtendsForAReplay => [a_replay_does_not_extend_the_ttl],
    KeepsTheLastAnswer => [a_repeated_completion_keeps_the_first_answer],
    LosesARepeatedCompletion => [
        a_repeated_completion_keeps_the_first_answer
        a_dropped_claim_leaves_the_store_usable
    ],
    CompletesForEver => [a_completion_repeated_after_expiry_is_lost],
    LosesALateCompletion => [
        a_late_completion_holds_if_nobody_took_over
        the_holder_may_go_on_after_a_lapse_under_reject
    ],
    LosesALateRelease => [a_late_release_holds_if_nobody_took_over],
    LosesALateRenewal => [a_lapsed_lease_is_renewed_if_nobody_took_over],
    RenewsNothing => [
        a_renewed_lease_holds
        a_renewed_record_outlives_its_first_expiry
        sweeping_beside_live_claims_touches_none
    ],
    AddsRenewalsUp => [a_renewal_counts_from_now],
    CountsTheTtlFromTheClaim => [the_ttl_counts_from_the_completion],
    ReplaysUntilItIsSwept => [an_expired_answer_is_absent_before_it_is_swept],
    HasNoTombstones => [a_tombstone_refuses_the_key an_expired_record_is_not_given_an_answer],
    RefusesForEver => [a_tombstone_ends a_sweep_deletes_what_is_gone],
    RefusesAtOnce => [an_answer_with_a_tombstone_is_replayed_until_its_ttl],
    WrapsDurations => [a_huge_duration_is_cut],
    TakesZeroForNotSet => [a_zero_duration_is_over_at_once],
    ReleasesByForgetting => [
        another_payload_is_a_mismatch_after_a_failure
        a_failed_record_is_free_at_once
        a_failed_or_lapsed_record_can_be_given_an_answer
    ],
    BindsForEver => [the_binding_of_a_failed_record_ends],
    BindsAsTheClaimSaid => [a_failed_record_stays_as_long_as_its_release_said],
    BindsTheUndone => [an_undone_first_attempt_was_never_granted an_absent_record_is_not_found],
    UndoesEarlierAttempts => [undoing_a_later_attempt_keeps_the_binding],
    KnowsNothingUnknown => [an_unknown_outcome_is_refused_to_everybody],
    ReleasesTheCompleted => [a_completed_record_is_neither_renewed_nor_released],
    ReleasesAgain => [a_repeated_release_is_lost],
    AlwaysRetries => [
        a_crash_under_reject_leaves_the_outcome_unknown
        an_unknown_outcome_never_expires
        the_holders_claim_decides_what_a_crash_means
    ],
    NeverRetries => [a_lapsed_lease_is_taken_over],
    LetsTheFinderDecide => [the_holders_claim_decides_what_a_crash_means],
    ShutsTheHolderOut => [the_holder_may_go_on_after_a_lapse_under_reject],
    RejectsBeforeTheLapse => [a_lease_under_reject_is_in_flight_until_it_lapses],
    SettlesNothing => [
        an_unknown_outcome_can_be_given_an_answer
        a_failed_or_lapsed_record_can_be_given_an_answer
    ],
    SettlesAnything => [
        a_record_in_flight_or_completed_is_not_given_an_answer
        an_expired_record_is_not_given_an_answer
    ],
    SettlesTheAbsent => [an_absent_record_is_not_settled],
    SettlesWithoutBinding => [a_settled_answer_is_bound_and_expires],
    ForgetsNothing => [any_record_can_be_forgotten forgetting_fences_the_holder],
    SweepsNothing => [a_sweep_deletes_what_is_gone],
    SweepsTheLive(InFlight) => [
        sweeping_beside_live_claims_touches_none
        a_sweep_spares_what_is_live
        a_renewed_record_outlives_its_first_expiry
    ],
    SweepsTheLive(Lapsed) => [a_sweep_spares_what_is_live],
    SweepsTheLive(Failed) => [a_sweep_spares_what_is_live],
    SweepsTheLive(Completed) => [a_sweep_spares_what_is_live a_sweep_deletes_what_is_gone],
    SweepsTheLive(Unknown) => [a_sweep_spares_what_is_live an_unknown_outcome_never_expires],
    SweepsTheLive(Expired) => [a_sweep_spares_what_is_live a_tombstone_refuses_the_key],
    SweepsWithoutLimit => [a_sweep_respects_its_limit],
    CountsWhatItSweepsTwice => [sweepers_share_the_work],
    TakesEmptyForAbsent => [an_empty_answer_is_an_answer],
    StoresText => [every_byte_of_an_answer_comes_back],
    CutsAnswers => [a_large_answer_comes_back_whole],
    FindsTheAbsent => [an_absent_record_is_not_found],
    TellsLapsedAsInFlight => [every_state_is_told_as_what_it_is],
    TellsTheAnswerOfTheExpired => [a_tombstone_refuses_the_key every_state_is_told_as_what_it_is],
    TellsTheAgeOfTheAttempt => [the_age_counts_from_the_first_attempt],
    RenewsWhenLookedAt => [a_look_up_changes_nothing],
    WaitsForEver => [
        a_waiter_returns_when_the_record_changes
        a_waiter_returns_at_its_limit
        a_change_before_the_wait_is_not_missed
    ],
    SleepsInsteadOfWaiting => [
        a_waiter_returns_when_the_record_changes
        a_change_before_the_wait_is_not_missed
    ],
    WaitsBeyondItsLimit => [a_waiter_returns_at_its_limit],
}

struct Broken(Fault, ManualClock);

impl Subject for Broken {
    type Store = Faulty;

    async fn fresh(&self) -> Faulty {
        Faulty::new(self.0, self.1.clone())
    }

    async fn pass(&self, span: Duration) {
        self.1.advance(span);
    }

    async fn held(&self, store: &Faulty) -> Option<u64> {
        Some(store.held())
    }
}

/// Tries a case against a fault; on paused time, so that a waiter who waits in vain gives up at once.
fn verdict(case: &Case, fault: Fault) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(case.run(Broken(fault, ManualClock::new())))
}

fn case(name: &str) -> &'static Case {
    CASES.iter().find(|case| case.name() == name).unwrap_or_else(|| panic!("there is no case `{name}`"))
}

#[test]
fn the_decorator_by_itself_breaks_no_promise() {
    for case in CASES {
        if let Err(failure) = verdict(case, Fault::Nothing) {
            panic!("{}: {failure}", case.name());
        }
    }
}

#[test]
fn every_fault_is_found_by_the_cases_that_should_find_it() {
    let mut missed = Vec::new();
    for (fault, cases) in FAULTS {
        for name in *cases {
            if verdict(case(name), *fault).is_ok() {
                missed.push(format!("{fault:?} is not found by {name}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn every_case_finds_a_fault() {
    let finds: BTreeSet<_> = FAULTS.iter().flat_map(|(_, cases)| cases.iter().copied()).collect();
    let idle: Vec<_> = CASES.iter().map(Case::name).filter(|name| !finds.contains(name)).collect();
    assert!(idle.is_empty(), "these find nothing: {}", idle.join(", "));
}

#[test]
fn a_failure_says_what_was_expected_what_was_found_and_where() {
    let found = verdict(case("a_new_record_is_granted_and_held"), Fault::IsAPlainSet);
    let text = found.expect_err("a plain set is no claim").to_string();
    assert!(text.starts_with("expected in flight, found Granted { attempt: 1 } ("), "{text}");
    assert!(text.contains("claim.rs:"), "{text}");
}
