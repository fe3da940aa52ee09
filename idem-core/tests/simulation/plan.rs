//! Plans: what a seed decides before anything happens.

use std::time::Duration;

use idem_core::policy::OnCrash;

use crate::dice::Dice;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The options of all calls, how many there are, and what goes wrong how often.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) processes: u32,
    pub(crate) keys: u32,
    pub(crate) clients: u32,
    /// How often a client tries at most.
    pub(crate) tries: u32,
    pub(crate) lease: Duration,
    pub(crate) ttl: Duration,
    pub(crate) tombstone: Option<Duration>,
    pub(crate) max_run: Duration,
    pub(crate) store_timeout: Duration,
    pub(crate) on_crash: OnCrash,
    /// In how many of a hundred cases a step of the store goes wrong, and how it may.
    pub(crate) troubled: u32,
    pub(crate) faults: u32,
    /// In how many of a hundred cases a caller goes away.
    pub(crate) leaving: u32,
    /// In how many of a hundred cases a handler does not simply succeed.
    pub(crate) failing: u32,
    /// In how many of a hundred cases a client sends another payload.
    pub(crate) changing: u32,
    /// How many things happen to processes, clock and records.
    pub(crate) blows: u32,
    /// Whether operators settle and forget.
    pub(crate) operator: bool,
    /// How long it is before a client begins.
    pub(crate) spread: Duration,
}

impl Plan {
    /// Most kinds of trouble are left out of most plans: where everything goes wrong at once, little gets far.
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let mut sometimes = |chance: u32, rates: &[u32]| {
            if dice.percent(chance) { dice.pick(rates) } else { 0 }
        };
        let troubled = sometimes(75, &[5, 15, 40]);
        let faults = sometimes(100, &[0xff, 0xff, 0x0f, 0xf0, 0x3c, 0x33, 0x44, 0x08]);
        let leaving = sometimes(60, &[20, 60]);
        let failing = sometimes(60, &[20, 60]);
        let changing = sometimes(50, &[10, 40]);
        let blows = sometimes(70, &[1, 3, 8]);
        let operator = sometimes(10, &[1]) > 0;
        let lease = dice.pick(&[ms(40), ms(300), ms(1000), ms(3000)]);
        Self {
            processes: dice.within(1, 3),
            keys: if dice.percent(70) { 1 } else { 2 },
            clients: dice.within(2, 5),
            tries: dice.within(1, 5),
            lease,
            ttl: dice.pick(&[ms(1000), ms(10_000), ms(60_000)]),
            tombstone: dice.percent(20).then_some(ms(2000)),
            max_run: (lease * dice.pick(&[3, 8, 20])).max(ms(300)),
            store_timeout: dice.pick(&[ms(100), ms(500), ms(2000)]),
            on_crash: if dice.percent(35) { OnCrash::Reject } else { OnCrash::Retry },
            troubled,
            faults,
            leaving,
            failing,
            changing,
            blows,
            operator,
            spread: dice.pick(&[ms(5), lease, lease * 4]),
        }
    }

    /// How long a pause in a handler, or a message on its way, takes: mostly little, at times longer than a lease.
    pub(crate) fn pause(&self, dice: &mut Dice) -> Duration {
        match dice.below(10) {
            0..=4 => dice.span(ms(0), ms(5)),
            5..=7 => dice.span(ms(0), self.lease),
            8 => dice.span(ms(0), self.store_timeout * 2),
            _ => dice.span(self.lease, self.lease * 3),
        }
    }
}
