//! What a caller can rely on, shown over real HTTP on every store.
//!
//! A case is one function whose name is the promise; its doc comment has the row of the behaviour that it shows. The
//! list at the end of this file has every row, and makes one test of every case and store.
//!
//! Rows are numbered by section: 1 identity, 2 key, 3 fingerprint, 4 answers, 5 what is stored, 6 crashes. The numbers are
//! only names. What a row promises is said by the names and doc comments of its cases, and to users by the guide in `docs/`.

#![cfg(all(
    feature = "actix-web",
    feature = "axum",
    feature = "memory",
    feature = "sqlite",
    feature = "postgres",
    feature = "mysql",
    feature = "redis",
    feature = "tower",
    feature = "encryption",
    feature = "uuid"
))]

// Shared with the tests of the engine, which use more of it.
#[allow(dead_code)]
#[path = "../../idem-core/tests/engine/faulty.rs"]
mod faulty;

mod client;
mod gate;
mod logs;
mod server;
mod stores;
mod ways;

mod answers;
mod crashes;
mod encrypted;
mod fingerprint;
mod identity;
mod key;
mod secrecy;
mod stored;

/// Makes the tests of one store and one way in, in a module of their own.
macro_rules! store {
    ($store:ident: $kind:ident; $($cases:tt)+) => {
        store!($store: $kind by Attribute; $($cases)+);
    };
    ($store:ident: $kind:ident by $way:ident; $($section:ident { $($row:literal: $($case:ident)+;)+ })+) => {
        mod $store {
            $(mod $section {
                $($(
                    #[tokio::test]
                    async fn $case() {
                        let case = crate::$section::$case(crate::stores::Kind::$kind);
                        let store = crate::stores::Kind::$kind;
                        crate::ways::Way::$way.run(store, stringify!($section), stringify!($case), case).await;
                    }
                )+)+
            })+
        }
    };
}

/// Shows what runs where: `cargo test --all-features --test behaviour matrix -- --nocapture`.
macro_rules! matrix {
    ([$($way:ident: $($store:literal)+;)+] $($section:ident { $($row:literal: $($case:ident)+;)+ })+) => {
        #[test]
        fn the_matrix_has_a_reason_for_every_case_that_is_left_out() {
            const CASES: &[ways::Case] = &[$($($((stringify!($section), $row, stringify!($case)),)+)+)+];
            ways::print_matrix(CASES, &[$((ways::Way::$way, &[$($store),+])),+]);
            ways::assert_reasons_are_of(CASES);
        }
    };
}

/// The stores, each with all cases.
macro_rules! on_every_store {
    ($($cases:tt)+) => {
        store!(memory: Memory; $($cases)+);
        store!(sqlite: Sqlite; $($cases)+);
        store!(postgres: Postgres; $($cases)+);
        store!(mysql: MySql; $($cases)+);
        store!(redis: Redis; $($cases)+);
        store!(redis_cluster: RedisCluster; $($cases)+);
        store!(redis_sentinels: RedisSentinels; $($cases)+);
        store!(memory_by_layer: Memory by Layer; $($cases)+);
        store!(sqlite_by_layer: Sqlite by Layer; $($cases)+);
        store!(postgres_by_layer: Postgres by Layer; $($cases)+);
        store!(mysql_by_layer: MySql by Layer; $($cases)+);
        store!(redis_by_layer: Redis by Layer; $($cases)+);
        store!(memory_by_actix: Memory by ActixAttribute; $($cases)+);
        store!(sqlite_by_actix: Sqlite by ActixAttribute; $($cases)+);
        store!(postgres_by_actix: Postgres by ActixAttribute; $($cases)+);
        store!(mysql_by_actix: MySql by ActixAttribute; $($cases)+);
        store!(redis_by_actix: Redis by ActixAttribute; $($cases)+);
        store!(memory_by_middleware: Memory by ActixMiddleware; $($cases)+);
        store!(sqlite_by_middleware: Sqlite by ActixMiddleware; $($cases)+);
        store!(postgres_by_middleware: Postgres by ActixMiddleware; $($cases)+);
        store!(mysql_by_middleware: MySql by ActixMiddleware; $($cases)+);
        store!(redis_by_middleware: Redis by ActixMiddleware; $($cases)+);
        matrix! {
            [
                Attribute: "memory" "sqlite" "postgres" "mysql" "redis" "redis_cluster" "redis_sentinels";
                Layer: "memory" "sqlite" "postgres" "mysql" "redis";
                ActixAttribute: "memory" "sqlite" "postgres" "mysql" "redis";
                ActixMiddleware: "memory" "sqlite" "postgres" "mysql" "redis";
            ]
            $($cases)+
        }
    };
}

on_every_store! {
    identity {
        "1.1":
            two_scopes_never_see_each_others_records
            two_operations_never_see_each_others_records;
        "1.2":
            a_token_that_was_rotated_between_two_attempts_does_not_run_the_work_twice
            callers_share_the_records_of_an_operation_whose_scope_is_shared;
        "1.3":
            an_operation_left_out_is_named_by_module_and_function
            an_engine_refuses_one_unpinned_operation_from_two_places_in_the_source
            a_pinned_operation_replays_after_its_function_was_renamed_and_moved;
        "1.4":
            full_keys_payloads_and_bodies_reach_neither_logs_nor_errors_nor_debug
            the_store_keeps_the_operation_in_clear_and_neither_key_nor_scope_nor_payload;
        "1.5":
            keys_are_compared_byte_for_byte_so_case_and_trailing_blanks_count;
    }
    key {
        "2.1":
            a_key_is_the_same_with_and_without_quotes
            with_strict_syntax_only_the_quoted_form_is_a_key;
        "2.2":
            a_quoted_key_may_have_escapes_blanks_and_parameters_which_are_ignored;
        "2.3":
            a_request_without_a_key_is_400_and_does_not_run
            with_missing_run_a_request_without_a_key_passes_without_a_record
            with_missing_derive_the_fingerprint_is_the_key;
        "2.4":
            a_key_that_is_none_is_400_and_the_store_is_not_asked
            a_key_with_control_characters_is_400_and_the_store_is_not_asked
            two_header_lines_are_400_even_if_they_are_equal_and_the_store_is_not_asked
            a_key_may_have_255_bytes
            a_shorter_limit_refuses_longer_keys_and_a_longer_one_cannot_be_had
            with_a_format_other_keys_are_400_and_two_spellings_stay_two_keys;
        "2.5":
            a_safe_method_ignores_its_key_even_a_malformed_one_and_the_store_is_not_asked;
        "2.6":
            the_key_may_be_a_field_of_the_body
            the_key_may_be_a_part_of_the_path_and_anything_that_parses
            the_key_may_be_several_values_whose_parts_cannot_be_mistaken
            the_key_may_stand_in_another_header
            the_engine_may_read_keys_from_another_header;
    }
    fingerprint {
        "3.1":
            everything_that_was_asked_for_counts_whatever_the_handler_extracts
            a_fingerprint_of_ones_own_counts_instead_of_the_request
            with_fingerprint_none_any_payload_gets_the_stored_answer;
        "3.2":
            json_that_means_the_same_is_the_same
            json_that_means_something_else_differs
            json_with_duplicate_members_or_none_at_all_is_compared_byte_for_byte
            json_of_any_depth_and_numbers_of_any_size_are_compared
            with_fingerprint_raw_json_is_compared_byte_for_byte;
        "3.3":
            the_query_counts_by_its_sorted_names_and_the_order_of_repeated_ones
            of_the_headers_only_the_essence_of_the_media_type_counts
            headers_that_are_named_count_too;
        "3.4":
            forms_are_compared_by_their_pairs
            multipart_is_compared_by_its_parts_and_never_by_its_boundary
            malformed_multipart_is_compared_byte_for_byte;
        "3.5":
            a_rotated_secret_never_turns_a_live_record_into_a_422
            a_record_under_a_secret_that_is_gone_is_an_error_and_never_a_run;
        "3.6":
            with_a_secret_the_stored_fingerprint_does_not_give_the_payload_away;
        "3.7":
            a_body_over_the_limit_is_413_before_anything_is_claimed
            a_chunked_body_over_the_limit_is_413_too
            every_byte_of_a_body_of_any_size_counts_and_the_handler_reads_them_all;
    }
    answers {
        "4.1":
            the_first_call_runs_and_is_answered_without_the_marker
            a_first_answer_has_no_marker_even_if_the_handler_passes_one_on;
        "4.2":
            a_retry_gets_the_stored_answer_with_the_marker_and_the_handler_does_not_run
            a_replay_does_not_extend_the_expiry
            the_marker_may_have_another_name
            a_hook_is_told_of_each_replay_and_of_nothing_else
            the_key_is_sent_back_where_that_is_asked_for_and_is_not_stored
            the_expiry_is_told_where_that_is_asked_for_and_does_not_move;
        "4.3":
            another_payload_under_a_completed_key_is_422_and_says_nothing_of_the_stored_request
            another_payload_under_a_key_in_flight_is_422_and_does_not_wait
            another_payload_under_a_failed_key_is_422
            one_who_waits_and_finds_another_payload_completed_gets_422
            a_mismatch_may_have_another_status_but_never_that_of_a_success
            every_problem_links_to_the_docs_that_are_named
            errors_may_be_written_in_the_style_of_the_house;
        "4.4":
            a_retry_of_a_running_call_is_409_with_a_retry_after_of_about_a_second
            one_who_waits_gets_the_replay_when_the_first_has_finished
            one_who_waits_runs_when_the_first_has_failed
            one_who_waits_and_hangs_up_changes_nothing
            one_who_waits_gets_409_at_the_deadline;
        "4.5":
            an_expired_key_runs_as_new_whatever_the_payload_swept_or_not
            with_expired_reject_an_old_key_is_409_for_the_tombstones_time;
        "4.6":
            while_the_store_is_away_a_call_is_503_and_does_not_run
            while_the_store_hangs_a_call_is_503_within_the_stores_time_out
            a_claim_that_may_have_got_through_is_released_so_that_the_retry_is_not_409
            with_on_store_error_run_a_call_runs_unprotected;
        "4.7":
            if_the_answer_cannot_be_stored_yet_its_caller_gets_it_and_duplicates_409_until_it_is
            if_the_store_stays_away_longer_than_the_lease_another_takes_over;
        "4.8":
            a_caller_without_access_gets_401_or_403_and_the_store_is_not_asked;
        "4.9":
            of_64_racing_calls_one_runs_and_nobody_else
            calls_that_race_through_two_engines_are_one_run
            of_calls_that_race_without_pause_each_key_runs_once;
        "4.10":
            with_too_many_handlers_running_a_new_key_is_503_and_live_keys_still_replay
            one_who_waits_takes_no_room
            beyond_the_limit_of_new_keys_a_key_is_429_and_nothing_is_written_and_live_keys_still_replay;
        "4.11":
            when_the_store_comes_back_the_next_call_works_at_once;
        "errors":
            an_error_is_a_problem_document_with_exactly_these_members
            the_renderer_of_errors_can_be_replaced;
    }
    stored {
        "5.1":
            every_2xx_and_3xx_is_replayed;
        "5.2":
            a_4xx_that_the_handler_made_is_replayed
            a_4xx_that_says_try_again_is_not_stored_and_leaves_the_key_bound
            a_predicate_decides_instead_of_the_status;
        "5.3":
            a_5xx_is_not_stored_and_leaves_the_key_bound
            a_key_that_failed_is_bound_for_the_ttl_and_no_longer
            with_rebind_a_failed_key_takes_another_payload;
        "5.4":
            of_a_plain_function_ok_is_stored_and_err_is_not
            with_store_err_an_err_is_stored_too;
        "5.5":
            a_panic_is_the_applications_own_and_the_key_is_free_at_once_but_bound;
        "5.6":
            what_a_handler_marks_is_obeyed_whatever_the_status
            cache_control_no_store_has_no_say;
        "5.7":
            what_an_extractor_rejects_claims_nothing_and_leaves_the_key_free;
        "5.8":
            an_answer_over_the_limit_reaches_its_first_caller_whole_and_is_410_after_that
            the_limit_of_answers_may_be_set
            an_event_stream_reaches_its_first_caller_and_is_410_after_that;
        "5.9":
            an_answer_that_cannot_be_decoded_is_an_error_and_never_a_second_run
            a_value_whose_type_has_changed_is_an_error_and_never_a_second_run;
        "headers":
            on_the_wire_a_replay_differs_from_the_first_answer_by_its_marker_only
            an_answer_without_a_body_is_the_same_on_the_wire
            what_belongs_to_one_connection_moment_or_caller_is_not_replayed
            a_streamed_answer_is_replayed_byte_for_byte_with_its_length
            an_empty_answer_is_told_apart_from_none;
    }
    secrecy {
        "1.4":
            whatever_befalls_a_call_nothing_of_key_scope_payload_and_answer_is_shown;
    }
    encrypted {
        "encryption":
            with_a_keyring_the_store_keeps_nothing_of_an_answer_in_clear
            an_answer_that_was_tampered_with_is_an_error_and_never_a_second_run
            answers_are_replayed_across_the_rotation_of_their_key_and_not_after_it_is_dropped
            an_answer_that_the_store_does_not_take_is_an_encrypted_tombstone;
    }
    crashes {
        "6.1":
            a_client_that_hangs_up_does_not_stop_the_handler_and_its_retry_replays
            a_connection_that_is_reset_does_not_stop_the_handler_and_its_retry_replays
            a_drop_while_the_claim_is_under_way_releases_it
            with_on_disconnect_cancel_the_handler_is_dropped_and_the_key_is_free_at_once_but_bound
            a_function_that_borrows_counts_as_crashed_when_it_is_dropped;
        "6.2":
            a_handler_may_take_much_longer_than_its_lease
            a_handler_that_ends_soon_renews_nothing_and_its_answer_outlives_its_lease
            a_renewal_that_fails_is_tried_again_while_the_lease_may_last
            when_no_renewal_gets_through_the_handler_is_aborted_and_another_takes_over
            a_handler_that_hangs_is_aborted_at_the_ceiling_and_its_key_is_free_but_bound;
        "6.3":
            after_a_crash_duplicates_get_409_until_the_lease_ends_and_then_one_takes_over
            with_on_crash_reject_whatever_ends_without_an_answer_is_unknown_and_never_runs_again
            with_on_crash_reject_what_is_answered_replays_and_what_is_marked_retryable_runs_again
            an_unknown_outcome_is_settled_with_an_answer_or_forgotten;
        "6.4":
            a_late_holder_cannot_overwrite_its_successor_and_is_told_of_it
            a_late_holder_answers_what_its_successor_has_answered
            a_late_holder_that_fails_cannot_release_its_successors_claim
            a_handler_is_aborted_when_a_renewal_finds_its_lease_lost;
        "6.5":
            a_claim_whose_reply_was_lost_is_repeated_and_granted
            a_completion_whose_reply_was_lost_is_repeated_and_held;
        "6.6":
            sweepers_reclaim_what_is_expired_and_nothing_else;
        "6.7":
            a_slow_handler_does_not_eat_its_own_replay_window;
        "6.8":
            a_handler_knows_its_attempt_and_keys_that_stay_the_same_over_all_attempts;
        "6.9":
            an_operator_can_look_at_a_record_in_every_state
            an_operator_can_forget_a_record_and_its_key_runs_as_new;
    }
}

store! { memory_only: Memory;
    answers {
        "4.10":
            a_full_memory_store_refuses_new_keys_with_503_and_live_keys_still_replay;
    }
}

// Not here:
//
// | row | what | where, or why not |
// |---|---|---|
// | 1.2 | the warning where a scope is left out | `tests/ui` |
// | 1.3 | methods and generic functions must name their operation | `tests/ui` |
// | 3.1, 3.2 | typed arguments (P), and those that cannot be fingerprinted | `idem-core/tests/fingerprint`, `tests/ui` |
// | 3.4 | multipart of every shape | `idem-core/src/http/multipart.rs`, `fuzz/` |
// | 3.5 | two versions of the fingerprint | there is one; that another is an error: `idem-core/src/conformance` |
// | 4.3 | 409 beside an uncommitted transaction | `tests/transactions/handlers.rs`, `idem-sqlx/tests/transactions` |
// | 4.4 | waiting for another process | `idem-sqlx/tests/postgres_steps.rs`, in transactions `idem-sqlx/tests/transactions/processes.rs`; others poll: `idem-core/src/conformance/cases/changed.rs` |
// | 4.9 | racing processes | `idem-sqlx/tests/*_processes.rs` and `idem-sqlx/tests/transactions/processes.rs`, `examples/payments/tests/payments/race.rs` |
// | errors | the rendering | `idem-core/src/http/problem.rs` |
// | 5.7 | what a layer leaves | `tests/layer/rejections.rs` |
// | 5.8 | streams that outgrow the limit while they are written; upgrades; bodies that break off | `tests/axum_adapter/response.rs` |
// | 6.1 | a thousand clients that leave | `examples/payments/tests/payments/disconnect.rs` |
// | 6.2, 6.4 | paused holders (SIGSTOP) | `examples/payments/tests/payments/zombie.rs`; under paused time: `idem-core/tests/engine/leases.rs` |
// | 6.3 | processes that are killed (SIGKILL) | `examples/payments/tests/payments/crash.rs` |
// | 6.6 | a clock that is moved to the edge of expiry | `idem-core/src/conformance/cases/expiry.rs` |
// | 5, 6, 7 | what transaction mode makes of them | `tests/transactions` (records.rs: 5.7 to 5.9, 6.7, 6.9), `idem-sqlx/tests/transactions`, `examples/payments/tests/payments` |
// | all | what is actix-web's own: payloads, bodies, other middleware | `tests/actix_adapter` |
