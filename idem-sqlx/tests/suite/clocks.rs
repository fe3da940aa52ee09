//! Clocks: the database's alone decides. Sessions in the furthest time zones and programs whose clock is an hour off get
//! the answers that everybody gets.

use super::{Backend, Options, Served};
use crate::common::clocks;
use crate::common::process::runtime;
use crate::common::steps::{Steps, decide_as_ever};

/// A sweeper deletes what is gone.
const SWEPT: u64 = 1;

pub(crate) fn sessions_in_the_furthest_time_zones_decide_as_ever<B: Served>() {
    let runtime = runtime();
    let home = runtime.block_on(B::new());
    let [(east, ahead), (west, behind)] =
        B::ZONES.map(|zone| runtime.block_on(home.open_after(zone, B::ZONE)));
    assert_eq!((ahead, behind), (14, -12), "hours");
    let (mut east, mut west) = (Steps::new(east), Steps::new(west));
    let mut in_the_east = |line: &str| runtime.block_on(east.take(line));
    let mut in_the_west = |line: &str| runtime.block_on(west.take(line));
    decide_as_ever("1", SWEPT, &mut in_the_east, &mut in_the_west);
    decide_as_ever("2", SWEPT, &mut in_the_west, &mut in_the_east);
}

/// Takes the steps that it is told.
pub(crate) async fn take_steps<B: Backend>(place: &str) {
    let store = B::open_at(place, Options::default()).await.unwrap();
    clocks::take_steps(&store).await;
    B::close(&store).await;
}

pub(crate) fn programs_whose_clocks_are_an_hour_off_decide_as_ever<B: Served>() {
    let home = runtime().block_on(B::new());
    clocks::programs_whose_clocks_are_an_hour_off_decide_as_ever(&home.place(), SWEPT);
}

pub(crate) fn programs_whose_clocks_are_an_hour_off_race_as_ever<B: Served>() {
    let home = runtime().block_on(B::new());
    clocks::programs_whose_clocks_are_an_hour_off_race_as_ever(&home.place());
}
