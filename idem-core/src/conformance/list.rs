//! The list: every case, by the file that holds it. A case that is not here does not compile, for it is never used.

use super::{Case, cases};

/// Hands the list to a macro, after what that macro was given.
#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_cases {
    ([$($macro:tt)+] $($given:tt)*) => {
        $($macro)+! {
            { $($given)* }
            claim:
                a_new_record_is_granted_and_held
                in_flight_tells_how_long_the_lease_lasts
                a_repeated_claim_is_granted_again
                a_repeated_claim_renews_the_lease
                a_repeated_claim_after_the_lapse_is_the_same_attempt
                a_repeated_take_over_is_the_same_attempt
                a_refused_claim_changes_nothing
                attempts_count_take_overs_and_retries
                a_completed_record_is_replayed;
            race:
                a_race_for_a_record_has_one_winner
                races_for_many_records_have_one_winner_each
                a_race_to_take_over_has_one_winner
                a_race_to_retry_a_failed_record_has_one_winner
                racing_repeats_of_one_owner_are_one_attempt
                a_late_completion_and_a_take_over_exclude_each_other
                a_dropped_claim_leaves_the_store_usable;
            lease:
                a_lapsed_lease_is_taken_over
                a_renewed_lease_holds
                a_renewal_counts_from_now
                a_lapsed_lease_is_renewed_if_nobody_took_over
                a_record_outlives_its_lease
                a_lapsed_record_is_gone_after_its_binding
                a_renewed_record_outlives_its_first_expiry;
            fence:
                a_late_owner_changes_nothing_after_a_take_over
                a_late_owner_finds_its_successor_in_flight
                a_stale_owner_changes_nothing_after_release_and_reclaim
                a_stale_owner_changes_nothing_after_a_retry
                a_stranger_changes_nothing
                owners_are_compared_to_the_last_bit
                a_late_completion_holds_if_nobody_took_over
                a_late_release_holds_if_nobody_took_over
                a_repeated_completion_keeps_the_first_answer
                a_completion_repeated_after_expiry_is_lost
                a_completed_record_is_neither_renewed_nor_released
                a_repeated_release_is_lost;
            fingerprint:
                another_payload_is_a_mismatch_while_in_flight
                another_payload_is_a_mismatch_after_the_lapse
                another_payload_is_a_mismatch_after_a_failure
                another_payload_is_a_mismatch_after_completion
                another_payload_is_a_mismatch_while_unknown
                expiry_is_decided_before_the_fingerprint
                a_refused_key_is_refused_whatever_the_payload
                the_version_is_decided_before_the_fingerprint
                older_versions_and_secrets_are_recognised
                a_record_is_bound_to_the_current_fingerprint
                no_fingerprint_equals_any
                a_take_over_keeps_the_binding
                rebinding_frees_a_failed_record
                rebinding_frees_nothing_else;
            identity:
                keys_are_compared_byte_for_byte
                operations_do_not_meet
                scopes_do_not_meet;
            release:
                an_undone_first_attempt_was_never_granted
                undoing_a_later_attempt_keeps_the_binding
                a_failed_record_is_free_at_once
                the_binding_of_a_failed_record_ends
                a_failed_record_stays_as_long_as_its_release_said
                an_unknown_outcome_is_refused_to_everybody;
            crash:
                a_crash_under_reject_leaves_the_outcome_unknown
                a_lease_under_reject_is_in_flight_until_it_lapses
                an_unknown_outcome_never_expires
                the_holder_may_go_on_after_a_lapse_under_reject
                the_holders_claim_decides_what_a_crash_means;
            settle:
                an_unknown_outcome_can_be_given_an_answer
                a_failed_or_lapsed_record_can_be_given_an_answer
                a_record_in_flight_or_completed_is_not_given_an_answer
                an_expired_record_is_not_given_an_answer
                an_absent_record_is_not_settled
                a_settled_answer_is_bound_and_expires
                any_record_can_be_forgotten
                forgetting_fences_the_holder;
            expiry:
                an_expired_answer_is_absent_before_it_is_swept
                the_ttl_counts_from_the_completion
                a_replay_does_not_extend_the_ttl
                an_answer_outlives_lease_and_binding
                a_tombstone_refuses_the_key
                an_answer_with_a_tombstone_is_replayed_until_its_ttl
                a_tombstone_ends
                a_zero_duration_is_over_at_once
                a_huge_duration_is_cut;
            sweep:
                a_sweep_deletes_what_is_gone
                a_sweep_spares_what_is_live
                a_sweep_respects_its_limit
                sweepers_share_the_work
                sweeping_beside_live_claims_touches_none;
            answer:
                an_empty_answer_is_an_answer
                every_byte_of_an_answer_comes_back
                a_large_answer_comes_back_whole;
            look_up:
                an_absent_record_is_not_found
                every_state_is_told_as_what_it_is
                the_age_counts_from_the_first_attempt
                a_look_up_changes_nothing;
            changed:
                a_waiter_returns_when_the_record_changes
                a_waiter_returns_at_its_limit
                a_change_before_the_wait_is_not_missed;
        }
    };
}

macro_rules! table {
    ({} $($file:ident: $($case:ident)*;)*) => {
        /// All cases.
        pub const CASES: &[Case] = &[$($(
            Case {
                name: stringify!($case),
                run: |trial| Box::pin(cases::$file::$case(trial)),
            },
        )*)*];
    };
}
__conformance_cases!([table]);

/// Makes a module with one `#[test]` of every case of the [store contract](crate::conformance).
///
/// Takes the module's name and an expression that makes a [`Subject`](crate::conformance::Subject), which is evaluated
/// for each test, inside its runtime, and may `.await`. Needs the feature `conformance`.
///
/// ```ignore
/// idem_core::conformance_tests!(mod memory, InMemory::default());
/// ```
#[macro_export]
macro_rules! conformance_tests {
    ($(#[$attribute:meta])* mod $name:ident, $subject:expr $(,)?) => {
        $crate::__conformance_cases! {
            [$crate::__conformance_module] $(#[$attribute])* mod $name, $subject
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __conformance_module {
    ({ $(#[$attribute:meta])* mod $name:ident, $subject:expr } $($file:ident: $($case:ident)*;)*) => {
        $(#[$attribute])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $($(
                #[test]
                fn $case() {
                    $crate::conformance::run(stringify!($case), async { $subject });
                }
            )*)*
        }
    };
}
