//! Clocks: the database's alone decides. Sessions in the furthest time zones and programs whose clock is an hour off get
//! the answers that everybody gets.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use idem_core::owner::Owner;
use idem_core::store::{Claim, Claimed, Retention, Store};
use idem_testkit::shift_clock;

use super::processes::{race_rounds, rounds};
use super::{Backend, Options, Served};
use crate::common::process::{Process, hear_line, runtime, say};
use crate::common::{answer, claim, id};

/// Seconds that a clock is ahead, from one that is behind by an hour to one that is ahead by as much.
const CLOCKS: [i64; 3] = [-3_600, 0, 3_600];

/// How much more time than it should a short span may take on a machine that does a lot else.
const PATIENCE: Duration = Duration::from_secs(10);

/// Somebody who takes a step that he is told, and says what came of it.
type Caller<'a> = &'a mut dyn FnMut(&str) -> String;

/// Takes steps under the owners of its own claims.
struct Steps<S> {
    store: S,
    owners: HashMap<String, Owner>,
}

impl<S: Store> Steps<S> {
    fn new(store: S) -> Self {
        Self { store, owners: HashMap::new() }
    }

    /// Takes `claim KEY LEASE`, `renew KEY LEASE`, `complete KEY TTL` or `sweep`; spans are milliseconds.
    async fn take(&mut self, line: &str) -> String {
        let words: Vec<_> = line.split(' ').collect();
        let (key, span) =
            (*words.get(1).unwrap_or(&""), words.get(2).map_or(0, |span| span.parse().unwrap()));
        let span = Duration::from_millis(span);
        let owner = self.owners.get(key).copied().unwrap_or_else(Owner::random);
        match words[0] {
            "claim" => {
                let claim = Claim { lease: span, ..claim("payload") };
                let claimed = self.store.claim(&id(key), &claim).await.unwrap();
                if matches!(claimed, Claimed::Granted { .. }) {
                    self.owners.insert(key.to_owned(), claim.owner);
                }
                match claimed {
                    Claimed::Granted { attempt } => format!("granted {attempt}"),
                    Claimed::InFlight { lease_left } => format!("in flight {}", lease_left.as_millis()),
                    Claimed::Completed { .. } => "completed".to_owned(),
                    other => format!("{other:?}"),
                }
            }
            "renew" => format!("{:?}", self.store.renew(&id(key), owner, span).await.unwrap()),
            "complete" => {
                let retention = Retention { ttl: span, tombstone_ttl: None };
                let fenced = self.store.complete(&id(key), owner, &answer("done"), retention).await;
                format!("{:?}", fenced.unwrap())
            }
            "sweep" => self.store.sweep(1_000).await.unwrap().to_string(),
            other => panic!("no such step: {other}"),
        }
    }
}

/// The milliseconds of a lease that somebody else holds.
fn left(said: &str) -> u64 {
    let (_, left) = said.split_once("in flight ").unwrap_or_else(|| panic!("expected a conflict: {said}"));
    left.parse().unwrap()
}

/// Claims until a span is over, and sees that it was not over early, nor much too late.
fn claims_when_over(caller: Caller<'_>, key: &str, span: Duration, since: Instant, granted: &str) {
    loop {
        let said = caller(&format!("claim {key} 30000"));
        if said == granted {
            break;
        }
        assert!(said == "completed" || left(&said) <= span.as_millis() as u64 + 1, "{said}");
        assert!(since.elapsed() < span + PATIENCE, "{said}");
    }
    assert!(since.elapsed() >= span, "{:?}", since.elapsed());
}

/// Leases, take-over, expiry and sweeping, between two callers.
fn decides_as_ever(name: &str, one: Caller<'_>, other: Caller<'_>) {
    let key = |what: &str| format!("{what}-{name}");
    let (busy, lapsed, gone) = (key("busy"), key("lapsed"), key("gone"));
    assert_eq!(one(&format!("claim {busy} 30000")), "granted 1");
    let lease = left(&other(&format!("claim {busy} 30000")));
    assert!((15_000..=30_000).contains(&lease), "{lease}");
    assert_eq!(one(&format!("renew {busy} 3600000")), "Held");
    let lease = left(&other(&format!("claim {busy} 30000")));
    assert!((3_500_000..=3_600_000).contains(&lease), "{lease}");
    assert_eq!(one(&format!("complete {busy} 86400000")), "Held");
    assert_eq!(other(&format!("claim {busy} 30000")), "completed");

    assert_eq!(one(&format!("claim {lapsed} 0")), "granted 1");
    assert_eq!(other(&format!("claim {lapsed} 30000")), "granted 2");
    assert_eq!(one(&format!("complete {lapsed} 86400000")), "Lost");
    assert_eq!(other(&format!("complete {lapsed} 86400000")), "Held");
    assert_eq!(one(&format!("claim {lapsed} 30000")), "completed");

    let short = Duration::from_millis(400);
    for (what, ends, again) in [("lease", None, "granted 2"), ("answer", Some(short), "granted 1")] {
        let (key, since) = (key(what), Instant::now());
        let lease = if ends.is_some() { 30_000 } else { 400 };
        assert_eq!(one(&format!("claim {key} {lease}")), "granted 1");
        if ends.is_some() {
            assert_eq!(one(&format!("complete {key} 400")), "Held");
        }
        claims_when_over(other, &key, short, since, again);
    }

    assert_eq!(one(&format!("claim {gone} 30000")), "granted 1");
    assert_eq!(one(&format!("complete {gone} 0")), "Held");
    assert_eq!(other("sweep"), "1");
    assert_eq!(one("sweep"), "0");
    assert_eq!(other(&format!("claim {gone} 30000")), "granted 1");
    for key in [busy, lapsed] {
        assert_eq!(one(&format!("claim {key} 30000")), "completed");
    }
}

pub(crate) fn sessions_in_the_furthest_time_zones_decide_as_ever<B: Served>() {
    let runtime = runtime();
    let home = runtime.block_on(B::new());
    let [(east, ahead), (west, behind)] =
        B::ZONES.map(|zone| runtime.block_on(home.open_after(zone, B::ZONE)));
    assert_eq!((ahead, behind), (14, -12), "hours");
    let (mut east, mut west) = (Steps::new(east), Steps::new(west));
    let mut in_the_east = |line: &str| runtime.block_on(east.take(line));
    let mut in_the_west = |line: &str| runtime.block_on(west.take(line));
    decides_as_ever("1", &mut in_the_east, &mut in_the_west);
    decides_as_ever("2", &mut in_the_west, &mut in_the_east);
}

/// Starts a process whose clock is so many seconds ahead.
fn start(play: &str, place: &str, ahead: i64) -> Process {
    Process::start_with(play, place, |program| {
        if ahead != 0 {
            shift_clock(program, ahead);
        }
    })
}

fn seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970");
    i64::try_from(since.as_secs()).expect("a clock before the end of time")
}

/// Says what time it is, and takes the steps that it is told.
pub(crate) async fn take_steps<B: Backend>(place: &str) {
    say(&seconds().to_string());
    let mut steps = Steps::new(B::open_at(place, Options::default()).await.unwrap());
    while let Some(line) = hear_line() {
        say(&steps.take(&line).await);
    }
    B::close(&steps.store).await;
}

pub(crate) fn programs_whose_clocks_are_an_hour_off_decide_as_ever<B: Served>() {
    let home = runtime().block_on(B::new());
    let mut processes = CLOCKS.map(|ahead| {
        let mut process = start("steps", &home.place(), ahead);
        let shown = process.hear().parse::<i64>().unwrap() - seconds();
        assert!((shown - ahead).abs() < 600, "its clock is {shown} seconds ahead");
        process
    });
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let (start, end) = processes.split_at_mut(other);
        let mut first = |line: &str| start[one].ask(line);
        let mut second = |line: &str| end[0].ask(line);
        decides_as_ever(&format!("{one}-{other}"), &mut first, &mut second);
        decides_as_ever(&format!("{other}-{one}"), &mut second, &mut first);
    }
    processes.into_iter().for_each(Process::end);
}

pub(crate) fn programs_whose_clocks_are_an_hour_off_race_as_ever<B: Served>() {
    let home = runtime().block_on(B::new());
    let mut processes = CLOCKS.map(|ahead| start("race", &home.place(), ahead));
    race_rounds(&mut processes, rounds());
    processes.into_iter().for_each(Process::end);
}
