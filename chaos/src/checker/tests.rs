//! The checker over histories by hand: a good one of each operation, and each promise broken.

use super::{Conclusion, Rule, check, story};
use crate::clock::{Micros, SECOND};
use crate::history::{Fate, Fault, History, Key, Operation, Payment, Request, Run, Target};

const TTL: Micros = 3 * SECOND;

/// A history of one key, in milliseconds, which is told line by line.
struct Told {
    history: History,
    key: Key,
}

impl Told {
    fn of(operation: Operation) -> Self {
        let key = Key { operation, name: "key".to_owned(), ttl: TTL };
        Self { history: History::default(), key }
    }

    /// Everything has healed, and who asks from now on sees what became of the key.
    fn healed(&mut self, at: u64) -> &mut Self {
        self.history.healed = Some(at * 1_000);
        self
    }

    fn run(&mut self, id: &str, payload: &str, attempt: u32, [begun, effect, ended]: [u64; 3]) -> &mut Self {
        self.history.runs.push(Run {
            id: id.to_owned(),
            key: self.key.clone(),
            payload: payload.to_owned(),
            process: 0,
            pid: 1,
            attempt,
            begun: begun * 1_000,
            effect: Some(effect * 1_000),
            ended: Some((ended * 1_000, false)),
        });
        self
    }

    /// Changes the last run.
    fn that(&mut self, change: impl FnOnce(&mut Run)) -> &mut Self {
        change(self.history.runs.last_mut().expect("a run"));
        self
    }

    fn asked(&mut self, payload: &str, [sent, ended]: [u64; 2], fate: Fate) -> &mut Self {
        self.history.requests.push(Request {
            key: self.key.clone(),
            payload: payload.to_owned(),
            process: 0,
            sent: sent * 1_000,
            ended: ended * 1_000,
            fate,
            is_last: false,
        });
        self
    }

    fn told(&mut self, by: &str, payload: &str, times: [u64; 2]) -> &mut Self {
        self.asked(payload, times, success(by, payload, false))
    }

    fn replayed(&mut self, by: &str, payload: &str, times: [u64; 2]) -> &mut Self {
        self.asked(payload, times, success(by, payload, true))
    }

    fn refused(&mut self, payload: &str, status: u16, code: &str, times: [u64; 2]) -> &mut Self {
        let fate = Fate::Answered { status, code: code.to_owned(), replayed: false, body: String::new() };
        self.asked(payload, times, fate)
    }

    fn last(&mut self) -> &mut Self {
        self.history.requests.last_mut().expect("a request").is_last = true;
        self
    }

    fn paid(&mut self, derived: &str, id: &str, at: u64) -> &mut Self {
        let (key, payload) = (self.key.clone(), "a".to_owned());
        let (derived, id) = (derived.to_owned(), id.to_owned());
        self.history.payments.push(Payment { derived, key, payload, id, at: at * 1_000 });
        self
    }

    fn fault(&mut self, target: Target, [begun, healed]: [u64; 2]) -> &mut Self {
        let (begun, healed) = (begun * 1_000, healed * 1_000);
        self.history.faults.push(Fault { kind: "kill".to_owned(), target, begun, healed, forgets: false });
        self
    }

    /// What the checker finds, each once.
    fn rules(&self) -> Vec<Rule> {
        let mut rules: Vec<_> = check(&self.history).violations.iter().map(|found| found.rule).collect();
        rules.sort();
        rules.dedup();
        rules
    }
}

fn success(by: &str, payload: &str, replayed: bool) -> Fate {
    Fate::Answered { status: 201, code: String::new(), replayed, body: format!("{by} {payload}") }
}

/// One run, its answer, and a replay.
fn good(operation: Operation) -> Told {
    let mut told = Told::of(operation);
    told.run("r1", "a", 1, [10, 20, 30]);
    let by = if operation == Operation::Derived { "p1" } else { "r1" };
    if operation == Operation::Derived {
        told.paid("d", "p1", 15);
    }
    told.told(by, "a", [0, 40]).replayed(by, "a", [50, 60]);
    told
}

/// The same, to its end.
fn good_to_the_end(operation: Operation) -> Told {
    let mut told = good(operation);
    told.healed(45).last();
    told
}

#[test]
fn one_run_with_its_answer_and_a_replay_is_right() {
    for operation in Operation::ALL {
        let told = good_to_the_end(operation);
        assert_eq!(told.rules(), [], "{operation:?}");
        assert_eq!(check(&told.history).conclusion(), Conclusion::Kept, "{operation:?}");
    }
}

#[test]
fn a_history_of_nothing_is_not_right() {
    let nothing = History { healed: Some(SECOND), ..History::default() };
    assert_eq!(check(&nothing).conclusion(), Conclusion::JudgedNothing);
    // Nobody has run.
    let mut refused = Told::of(Operation::Plain);
    refused.healed(60).asked("b", [50, 70], Fate::Lost("hung up".to_owned()));
    refused.refused("a", 422, "idempotency_conflict", [70, 80]).last();
    assert_eq!(check(&refused.history).conclusion(), Conclusion::JudgedNothing);
    // It ends before everything had healed.
    let cut = good(Operation::Plain);
    assert_eq!(check(&cut.history).conclusion(), Conclusion::JudgedNothing);
}

#[test]
fn a_take_over_from_a_killed_process_may_repeat_the_effect() {
    let mut told = Told::of(Operation::Plain);
    told.run("r1", "a", 1, [10, 20, 30]).that(|run| run.ended = None).fault(Target::Process(0), [25, 900]);
    told.run("r2", "a", 2, [1_100, 1_110, 1_120]).told("r2", "a", [1_050, 1_130]);
    let verdict = check(&told.history);
    assert_eq!(verdict.violations, []);
    assert_eq!((verdict.take_overs, verdict.repeated_effects), (1, 1));
}

#[test]
fn a_second_run_without_a_fault_is_found() {
    let mut told = good(Operation::Plain);
    told.history.requests.clear();
    told.run("r2", "a", 2, [1_100, 1_110, 1_120]);
    assert_eq!(told.rules(), [Rule::RunExplained]);
}

#[test]
fn a_fault_of_another_process_explains_nothing() {
    let mut told = Told::of(Operation::Plain);
    told.run("r1", "a", 1, [10, 20, 30]).fault(Target::Process(1), [15, 900]);
    told.run("r2", "a", 2, [1_100, 1_110, 1_120]);
    assert_eq!(told.rules(), [Rule::RunExplained]);
}

#[test]
fn a_fault_after_the_answer_was_delivered_explains_nothing() {
    let mut told = Told::of(Operation::Plain);
    told.run("r1", "a", 1, [10, 20, 30]).told("r1", "a", [0, 40]).fault(Target::Store, [50, 500]);
    told.run("r2", "a", 2, [1_100, 1_110, 1_120]);
    assert_eq!(told.rules(), [Rule::RunExplained]);
}

#[test]
fn a_fault_before_the_run_explains_nothing() {
    let mut told = Told::of(Operation::Plain);
    told.fault(Target::Store, [1, 5]).run("r1", "a", 1, [10, 20, 30]);
    told.run("r2", "a", 2, [1_100, 1_110, 1_120]);
    assert_eq!(told.rules(), [Rule::RunExplained]);
}

#[test]
fn a_fault_that_kept_the_claim_waiting_explains_what_came_of_its_short_lease() {
    let mut told = Told::of(Operation::Plain);
    told.fault(Target::Store, [100, 900]).run("r1", "a", 1, [950, 960, 970]);
    told.refused("a", 409, "idempotency_in_flight", [50, 980]);
    told.run("r2", "a", 2, [2_000, 2_010, 2_020]);
    assert_eq!(told.rules(), []);
    told.history.requests[0].sent = 920_000;
    assert_eq!(told.rules(), [Rule::RunExplained]);
}

#[test]
fn a_take_over_sooner_than_the_lease_was_over_is_found_whatever_broke() {
    for operation in [Operation::Plain, Operation::Derived] {
        let mut told = Told::of(operation);
        told.run("r1", "a", 1, [10, 20, 30])
            .that(|run| run.ended = None)
            .fault(Target::Process(0), [25, 900]);
        // It was asked for at 5, so its lease was not over before 1,005.
        told.refused("a", 503, "", [5, 40]).run("r2", "a", 2, [990, 1_010, 1_020]);
        assert_eq!(told.rules(), [Rule::RunExplained], "{operation:?}");
        told.that(|run| run.begun = 1_000_000);
        assert_eq!(told.rules(), [], "{operation:?}");
    }
}

#[test]
fn a_lease_may_have_begun_as_early_as_somebody_asked_who_was_served_still() {
    let mut told = Told::of(Operation::Plain);
    told.fault(Target::Store, [100, 900]).run("r1", "a", 1, [950, 960, 970]);
    told.run("r2", "a", 2, [1_200, 1_210, 1_220]);
    assert_eq!(told.rules(), [Rule::RunExplained]);
    // Who waits may have been granted it at once.
    told.refused("a", 503, "", [150, 980]);
    assert_eq!(told.rules(), []);
    // Who was told something else before it ran was not.
    told.history.requests[0].ended = 940_000;
    assert_eq!(told.rules(), [Rule::RunExplained]);
    // Who has hung up may have been.
    told.history.requests[0].fate = Fate::Lost("hung up".to_owned());
    assert_eq!(told.rules(), []);
    // Who has asked another process has not.
    told.history.requests[0].process = 1;
    assert_eq!(told.rules(), [Rule::RunExplained]);
}

#[test]
fn a_failover_may_forget_a_lease_that_is_not_over() {
    let mut told = Told::of(Operation::Plain);
    told.run("r1", "a", 1, [10, 20, 30]).fault(Target::Store, [15, 400]);
    told.run("r2", "a", 2, [500, 510, 520]);
    assert_eq!(told.rules(), [Rule::RunExplained]);
    told.history.faults[0].forgets = true;
    let verdict = check(&told.history);
    assert_eq!((verdict.violations, verdict.forgotten, verdict.take_overs), (Vec::new(), 1, 0));
}

#[test]
fn no_fault_explains_a_run_after_a_replay() {
    let mut told = good(Operation::Plain);
    told.fault(Target::Store, [15, 2_000]).run("r2", "a", 2, [1_100, 1_110, 1_120]);
    assert_eq!(told.rules(), [Rule::RunExplained]);
}

#[test]
fn a_record_that_forgets_its_attempts_is_found() {
    let mut told = Told::of(Operation::Plain);
    told.run("r1", "a", 1, [10, 20, 30]).fault(Target::Store, [15, 900]);
    told.run("r2", "a", 1, [1_100, 1_110, 1_120]);
    assert_eq!(told.rules(), [Rule::RunExplained]);
    told.history.faults[0].forgets = true;
    assert_eq!(check(&told.history).forgotten, 1);
    assert_eq!(told.rules(), []);
}

#[test]
fn a_run_that_failed_is_run_again() {
    let mut told = Told::of(Operation::Plain);
    told.run("r1", "a", 1, [10, 0, 30]).that(|run| (run.effect, run.ended) = (None, Some((30_000, true))));
    told.run("r2", "a", 2, [100, 110, 120]).told("r2", "a", [90, 130]);
    assert_eq!(told.rules(), []);
}

#[test]
fn a_second_commit_is_found_whatever_broke() {
    let mut told = Told::of(Operation::Transaction);
    told.run("r1", "a", 1, [10, 20, 30]).fault(Target::Store, [15, 900]);
    told.run("r2", "a", 2, [1_100, 1_110, 1_120]);
    assert_eq!(told.rules(), [Rule::EffectOnce]);
}

#[test]
fn a_run_that_was_not_committed_never_was() {
    let mut told = Told::of(Operation::Transaction);
    told.run("r1", "a", 1, [10, 0, 30]).that(|run| run.effect = None);
    told.run("r2", "a", 1, [100, 110, 120]).told("r2", "a", [90, 130]);
    assert_eq!(told.rules(), []);
}

#[test]
fn a_success_that_was_not_committed_is_found() {
    let mut told = good_to_the_end(Operation::Transaction);
    told.that(|run| run.effect = None);
    assert_eq!(told.rules(), [Rule::EffectAnswered]);
}

#[test]
fn a_second_payment_is_found_whatever_broke() {
    let mut told = good(Operation::Derived);
    told.fault(Target::Store, [5, 900]).paid("another", "p2", 500);
    assert_eq!(told.rules(), [Rule::EffectOnce]);
}

#[test]
fn a_success_that_nobody_paid_is_found() {
    let mut told = good(Operation::Derived);
    told.history.payments.clear();
    assert_eq!(told.rules(), [Rule::EffectAnswered]);
}

#[test]
fn a_take_over_reaches_a_payment_under_the_same_derived_key() {
    let mut told = Told::of(Operation::Derived);
    told.run("r1", "a", 1, [10, 20, 30]).that(|run| run.ended = None).fault(Target::Process(0), [25, 900]);
    told.paid("d", "p1", 15).run("r2", "a", 2, [1_100, 1_110, 1_120]).told("p1", "a", [1_050, 1_130]);
    assert_eq!(told.rules(), []);
}

#[test]
fn a_take_over_after_an_answer_by_a_system_that_deduplicates_is_found() {
    let mut told = good(Operation::Derived);
    told.fault(Target::Store, [50, 900]).run("r2", "a", 2, [1_100, 1_110, 1_120]);
    // The fault came after it was told, and the replay after it was stored.
    assert_eq!(told.rules(), [Rule::RunExplained]);
    told.history.faults[0].begun = 15_000;
    assert_eq!(told.rules(), [Rule::RunExplained]);
    told.history.requests.pop();
    assert_eq!(told.rules(), []);
    told.history.faults[0].begun = 50_000;
    assert_eq!(told.rules(), [Rule::RunExplained]);
}

#[test]
fn an_answer_by_a_system_that_deduplicates_is_of_neither_of_two_runs_that_may_have_given_it() {
    let mut told = Told::of(Operation::Derived);
    told.paid("d", "p1", 9).run("r1", "a", 1, [5, 10, 15]).fault(Target::Store, [12, 900]);
    told.run("r2", "a", 2, [1_010, 1_020, 1_030]).told("p1", "a", [1_005, 1_050]);
    // The answer of the second was told before this fault.
    told.fault(Target::Store, [1_100, 1_900]).run("r3", "a", 3, [2_020, 2_030, 2_040]);
    assert_eq!(told.rules(), [Rule::RunExplained]);
    // It may also have been that of the first.
    told.history.requests[0].sent = 0;
    assert_eq!(told.rules(), []);
}

#[test]
fn reject_never_runs_again_whatever_broke() {
    let mut told = Told::of(Operation::Reject);
    told.run("r1", "a", 1, [10, 20, 30]).that(|run| (run.effect, run.ended) = (None, None));
    told.fault(Target::Process(0), [15, 900]).run("r2", "a", 2, [1_100, 1_110, 1_120]);
    assert_eq!(told.rules(), [Rule::NeverAgain]);
}

#[test]
fn an_expired_key_is_used_again_and_lives_anew() {
    for operation in [Operation::Plain, Operation::Transaction] {
        let mut told = good(operation);
        told.run("r2", "b", 1, [3_100, 3_110, 3_120]).told("r2", "b", [3_090, 3_130]);
        told.replayed("r2", "b", [3_140, 3_150]);
        assert_eq!(told.rules(), [], "{operation:?}");
    }
}

#[test]
fn the_life_of_a_run_that_was_paused_for_too_long_counts_from_its_claim() {
    let mut told = Told::of(Operation::Plain);
    told.run("r1", "a", 1, [10, 3_900, 3_910]).fault(Target::Process(0), [15, 3_890]);
    // Its lease was over when it went on, and what bound the key at 4,010.
    told.run("r2", "a", 1, [4_100, 4_110, 4_120]);
    assert_eq!(told.rules(), []);
}

#[test]
fn a_failover_may_forget_that_a_claim_was_completed() {
    let mut told = good(Operation::Plain);
    told.fault(Target::Store, [35, 900]).refused("b", 422, "idempotency_conflict", [3_500, 3_510]);
    assert_eq!(told.rules(), [Rule::TrueMismatch]);
    told.history.faults[0].forgets = true;
    assert_eq!(told.rules(), []);
}

#[test]
fn a_history_that_was_written_and_read_is_judged_alike() {
    let mut told = good(Operation::Derived);
    told.fault(Target::Store, [5, 900]).paid("another", "p2", 500);
    let mut text = Vec::new();
    told.history.write(&mut text).expect("room");
    told.history = History::read(&*text).expect("a history");
    assert_eq!(told.rules(), [Rule::EffectOnce]);
}

#[test]
fn another_payload_under_a_bound_key_is_found() {
    for operation in [Operation::Plain, Operation::Transaction, Operation::Reject] {
        let mut told = good(operation);
        told.run("r2", "b", 2, [2_500, 2_510, 2_520]);
        assert_eq!(told.rules(), [Rule::OnePayload], "{operation:?}");
    }
}

#[test]
fn a_replay_that_differs_is_found() {
    let mut told = good(Operation::Plain);
    told.run("r2", "a", 2, [70, 75, 80]).fault(Target::Store, [15, 90]);
    told.replayed("r2", "a", [100, 110]);
    assert_eq!(told.rules(), [Rule::RunExplained, Rule::OneAnswer]);
}

#[test]
fn a_first_answer_that_is_not_the_stored_one_is_found() {
    let mut told = good(Operation::Plain);
    told.told("r1", "a", [70, 80]);
    let Fate::Answered { body, .. } = &mut told.history.requests[2].fate else { panic!("an answer") };
    body.push(' ');
    // Its last byte is one too many.
    assert_eq!(told.rules(), [Rule::OneAnswer]);
}

#[test]
fn an_answer_given_while_the_store_was_away_may_be_overtaken_by_a_later_run() {
    let mut told = Told::of(Operation::Plain);
    told.run("r1", "a", 1, [10, 20, 30]).fault(Target::Store, [25, 900]).told("r1", "a", [0, 40]);
    told.run("r2", "a", 2, [1_100, 1_110, 1_120]).told("r2", "a", [1_090, 1_130]);
    told.replayed("r2", "a", [1_200, 1_210]);
    let verdict = check(&told.history);
    assert_eq!((verdict.violations, verdict.overtaken), (Vec::new(), 1));
}

#[test]
fn a_late_owner_that_answers_for_its_successor_is_found() {
    let mut told = Told::of(Operation::Plain);
    told.run("r1", "a", 1, [10, 20, 30]).fault(Target::Process(0), [15, 900]);
    told.run("r2", "a", 2, [1_100, 1_110, 1_120]).told("r2", "a", [1_090, 1_130]);
    // It was fenced, and stored its answer all the same.
    told.replayed("r1", "a", [1_200, 1_210]);
    assert_eq!(told.rules(), [Rule::OneAnswer]);
}

#[test]
fn an_answer_to_another_payload_is_found() {
    let mut told = good(Operation::Plain);
    told.asked("b", [70, 80], success("r1", "a", true));
    assert_eq!(told.rules(), [Rule::OwnAnswer]);
}

#[test]
fn an_answer_of_nobody_is_found() {
    let mut told = Told::of(Operation::Plain);
    told.told("r9", "a", [0, 10]);
    assert_eq!(told.rules(), [Rule::OwnAnswer]);
}

#[test]
fn a_replay_after_expiry_is_found() {
    let mut told = good(Operation::Plain);
    told.replayed("r1", "a", [3_500, 3_510]);
    assert_eq!(told.rules(), [Rule::NotExpired]);
}

#[test]
fn a_refusal_of_the_same_payload_is_found() {
    let mut told = good(Operation::Plain);
    told.refused("a", 422, "idempotency_conflict", [70, 80]);
    assert_eq!(told.rules(), [Rule::TrueMismatch]);
    let mut told = good(Operation::Plain);
    told.refused("b", 422, "idempotency_conflict", [70, 80]);
    assert_eq!(told.rules(), []);
}

#[test]
fn a_refusal_for_a_payload_that_has_expired_is_found() {
    let mut told = good(Operation::Plain);
    told.refused("b", 422, "idempotency_conflict", [3_500, 3_510]);
    assert_eq!(told.rules(), [Rule::TrueMismatch]);
}

#[test]
fn an_answer_that_the_operation_does_not_declare_is_found() {
    for (operation, status, code) in [
        (Operation::Plain, 409, "idempotency_outcome_unknown"),
        (Operation::Plain, 410, "idempotency_response_unavailable"),
        (Operation::Plain, 500, "idempotency_undecodable"),
        (Operation::Transaction, 404, ""),
        (Operation::Derived, 409, "idempotency_lease_lost"),
    ] {
        let mut told = good(operation);
        told.refused("a", status, code, [70, 80]);
        assert_eq!(told.rules(), [Rule::KnownAnswer], "{code}");
    }
    let mut told = Told::of(Operation::Reject);
    told.refused("a", 409, "idempotency_outcome_unknown", [70, 80]);
    assert_eq!(told.rules(), []);
}

#[test]
fn a_key_that_is_stuck_after_healing_is_found() {
    let mut told = good(Operation::Plain);
    told.healed(60_000).refused("a", 409, "idempotency_in_flight", [61_000, 61_010]).last();
    assert_eq!(told.rules(), [Rule::NothingStuck]);
    // A final answer in time is what is asked for, and one too late is not.
    let mut late = Told::of(Operation::Plain);
    late.healed(60_000).refused("a", 409, "idempotency_in_flight", [61_000, 61_010]).last();
    late.run("r1", "a", 1, [80_000, 80_010, 80_020]).told("r1", "a", [79_000, 80_030]).last();
    assert_eq!(late.rules(), [Rule::NothingStuck]);
    late.history.terms.patience = 20 * SECOND;
    assert_eq!(late.rules(), []);
}

#[test]
fn a_key_that_nobody_asked_for_after_healing_is_found() {
    let mut told = good(Operation::Plain);
    told.healed(45);
    assert_eq!(told.rules(), [Rule::NothingStuck]);
    told.last();
    assert_eq!(told.rules(), []);
    // Who asks before does not see what became of it.
    told.healed(55);
    assert_eq!(told.rules(), [Rule::NothingStuck]);
}

#[test]
fn what_only_the_end_can_tell_is_left_out_before() {
    let mut told = good(Operation::Transaction);
    told.that(|run| run.effect = None);
    assert_eq!(told.rules(), []);
}

#[test]
fn a_story_tells_everything_of_a_key_in_order() {
    let mut told = good(Operation::Plain);
    told.fault(Target::Store, [35, 38]);
    let story = story(&told.history, &told.key);
    let places: Vec<_> =
        ["request 0: a", "run r1: a", "effect", "store kill begins", "request 1: 201 replayed"]
            .iter()
            .map(|part| story.find(part).unwrap_or_else(|| panic!("{part} in {story}")))
            .collect();
    assert!(places.is_sorted(), "{story}");
}
