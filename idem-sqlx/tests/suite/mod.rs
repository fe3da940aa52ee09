//! What every SQL store is asked, written once. A test program takes a backend and a part: `suite::steps_tests!(Sqlite);`.
#![allow(dead_code, unused_imports, unused_macros)]

mod backend;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "sqlite")]
mod sqlite;

pub(crate) mod clocks;
pub(crate) mod faults;
pub(crate) mod processes;
pub(crate) mod races;
pub(crate) mod servers;
pub(crate) mod steps;
pub(crate) mod sweeping;
pub(crate) mod tables;

pub(crate) use backend::{Backend, Options, Served};
#[cfg(feature = "mysql")]
pub(crate) use mysql::MySql;
#[cfg(feature = "postgres")]
pub(crate) use postgres::Postgres;
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::Sqlite;

/// Makes a test of each case.
macro_rules! cases {
    ($backend:ty, $part:ident: $($case:ident)+) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                suite::$part::$case::<$backend>().await;
            }
        )+
    };
}
pub(crate) use cases;

/// What is written and asked, and by which clock.
macro_rules! steps_tests {
    ($backend:ty) => {
        suite::cases! { $backend, steps:
            a_replay_a_conflict_and_a_mismatch_write_nothing
            a_lease_starts_when_the_wait_was_over_not_when_it_began
            a_replay_does_not_wait_for_a_writer_elsewhere
            huge_spans_are_cut_and_zero_spans_are_over
            a_record_is_never_refused_between_its_expiry_and_its_end
            a_settled_record_does_not_belong_to_its_former_holder
            debug_shows_no_key_owner_or_answer
        }
        suite::cases! { $backend, races:
            sixty_four_rivals_get_one_grant_and_sixty_three_answers
            thirty_two_writers_see_no_error_and_lose_nothing
            steps_taken_at_once_are_answered_each_by_itself
            dropped_callers_harm_nobody
            many_waiters_hold_no_connection_and_wake_at_once
            waiters_learn_what_another_store_did
        }

        #[test]
        fn a_store_outlives_the_runtime_that_opened_it() {
            suite::races::a_store_outlives_the_runtime_that_opened_it::<$backend>();
        }
    };
}
pub(crate) use steps_tests;

/// What is gone is deleted, nothing else is, and nobody waits long.
macro_rules! sweeping_tests {
    ($backend:ty) => {
        suite::cases! { $backend, sweeping:
            two_sweepers_clear_many_records_beside_live_claims
            a_sweep_deletes_no_more_than_it_was_told_and_finds_the_rest_later
            a_sweeper_works_until_it_is_stopped
        }
    };
}
pub(crate) use sweeping_tests;

/// What the processes do that other tests start.
macro_rules! the_other_process {
    ($backend:ty) => {
        /// Not a test by itself: what the other processes do.
        #[test]
        #[ignore = "started by other tests"]
        fn the_other_process() {
            suite::processes::the_other_process::<$backend>();
        }
    };
}
pub(crate) use the_other_process;

/// Several processes on one database.
macro_rules! processes_tests {
    ($backend:ty) => {
        suite::the_other_process!($backend);

        #[test]
        fn four_processes_racing_for_neighbouring_keys_run_each_once() {
            suite::processes::four_processes_racing_for_neighbouring_keys_run_each_once::<$backend>();
        }

        #[test]
        fn processes_that_open_a_new_database_at_once_make_its_table_once() {
            suite::processes::processes_that_open_a_new_database_at_once_make_its_table_once::<$backend>();
        }

        #[test]
        fn what_was_acknowledged_survives_a_kill_in_the_middle_of_writes() {
            suite::processes::what_was_acknowledged_survives_a_kill_in_the_middle_of_writes::<$backend>();
        }
    };
}
pub(crate) use processes_tests;

/// Tables: their names and their migrations.
macro_rules! tables_tests {
    ($backend:ty) => {
        suite::cases! { $backend, tables:
            two_tables_in_one_database_do_not_meet
            a_table_name_cannot_carry_a_statement
            migrating_again_changes_nothing
            the_text_of_the_migrations_makes_a_table_that_opens
        }
    };
}
pub(crate) use tables_tests;

/// Faults of the database and the set-up.
macro_rules! faults_tests {
    ($backend:ty) => {
        suite::cases! { $backend, faults:
            a_step_that_waits_for_a_lock_is_timed_out_and_is_taken_when_it_is_free
            claims_that_meet_a_lock_are_answered_when_it_is_free
            a_table_that_is_not_there_says_to_migrate
            a_record_that_this_release_does_not_know_is_corrupt_and_is_not_run
            a_closed_store_says_so_on_every_clone
        }
    };
}
pub(crate) use faults_tests;

/// Faults of a server and the way to it.
macro_rules! servers_tests {
    ($backend:ty) => {
        suite::cases! { $backend, servers:
            a_hung_server_is_timed_out_and_works_at_once_when_it_goes_on
            what_was_acknowledged_survives_a_killed_server_which_is_used_again_within_a_second
            a_step_whose_answer_was_lost_is_repeated_and_not_taken_for_a_rival
            a_claim_that_may_have_been_taken_is_of_unknown_fate_whatever_its_repetition_is_told
            connections_that_broke_while_they_were_idle_are_replaced
            a_connection_that_is_ended_in_the_middle_of_a_step_is_replaced
            a_serialization_failure_reaches_nobody
            other_keys_do_not_mind_a_lock
            a_server_that_cannot_be_reached_says_so
        }
    };
}
pub(crate) use servers_tests;

/// Sessions and programs whose clocks are off.
macro_rules! clocks_tests {
    ($backend:ty) => {
        suite::the_other_process!($backend);

        #[test]
        fn sessions_in_the_furthest_time_zones_decide_as_ever() {
            suite::clocks::sessions_in_the_furthest_time_zones_decide_as_ever::<$backend>();
        }

        #[test]
        fn programs_whose_clocks_are_an_hour_off_decide_as_ever() {
            suite::clocks::programs_whose_clocks_are_an_hour_off_decide_as_ever::<$backend>();
        }

        #[test]
        fn programs_whose_clocks_are_an_hour_off_race_as_ever() {
            suite::clocks::programs_whose_clocks_are_an_hour_off_race_as_ever::<$backend>();
        }
    };
}
pub(crate) use clocks_tests;
