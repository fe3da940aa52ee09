//! Programs whose time of day is wrong, on one store.

use std::time::{SystemTime, UNIX_EPOCH};

use idem_core::store::Store;

use super::race::{race_rounds, rounds};
use super::steps::{Steps, decide_as_ever};
use crate::clock::shift_clock;
use crate::play::{Process, hear_line, say};

/// Seconds that a clock is ahead, from one that is behind by an hour to one that is ahead by as much.
const CLOCKS: [i64; 3] = [-3_600, 0, 3_600];

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
///
/// # Panics
///
/// When the store cannot say.
pub async fn take_steps<S: Store + Clone>(store: &S) {
    say(&seconds().to_string());
    let mut steps = Steps::new(store.clone());
    while let Some(line) = hear_line() {
        say(&steps.take(&line).await);
    }
}

/// Programs whose clocks are an hour off get the answers that everybody gets. They play `steps`; a sweep deletes so many
/// records that are gone.
///
/// # Panics
///
/// When they do not.
pub fn programs_whose_clocks_are_an_hour_off_decide_as_ever(place: &str, swept: u64) {
    let mut processes = CLOCKS.map(|ahead| {
        let mut process = start("steps", place, ahead);
        let shown = process.hear().parse::<i64>().expect("seconds") - seconds();
        assert!((shown - ahead).abs() < 600, "its clock is {shown} seconds ahead");
        process
    });
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let (start, end) = processes.split_at_mut(other);
        let mut first = |line: &str| start[one].ask(line);
        let mut second = |line: &str| end[0].ask(line);
        decide_as_ever(&format!("{one}-{other}"), swept, &mut first, &mut second);
        decide_as_ever(&format!("{other}-{one}"), swept, &mut second, &mut first);
    }
    processes.into_iter().for_each(Process::end);
}

/// Programs whose clocks are an hour off race as others do. They play `race`.
///
/// # Panics
///
/// When they do not.
pub fn programs_whose_clocks_are_an_hour_off_race_as_ever(place: &str) {
    let mut processes = CLOCKS.map(|ahead| start("race", place, ahead));
    race_rounds(&mut processes, rounds());
    processes.into_iter().for_each(Process::end);
}
