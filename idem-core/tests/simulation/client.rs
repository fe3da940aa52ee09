//! Clients: they ask, go away, and ask again, as real ones do.

use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Either, select};
use idem_core::engine::Idempotency;
use idem_core::error::{Error, ErrorKind};
use idem_core::outcome::Outcome;
use idem_core::policy::{Expired, InFlight, OnCrash, OnDisconnect};

use crate::handler::{Script, handle};
use crate::op::{TOMBSTONE, marked};
use crate::promise::Promise;
use crate::trace::{CallId, Event, Told};
use crate::world::World;

/// The engines of all processes, dead ones included.
pub(crate) type Engines = Arc<Mutex<Vec<Idempotency>>>;

/// In whose future the work runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Detached,
    Inline,
    Cancelled,
}

/// What a call is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ask {
    pub(crate) process: u32,
    pub(crate) key: u32,
    pub(crate) payload: u32,
    pub(crate) way: Way,
    pub(crate) in_flight: InFlight,
}

/// Tries until it has an answer, and at times once more.
pub(crate) async fn client(world: Arc<World>, engines: Engines) {
    let (begins, key, payload) = world.dice(|plan, dice| {
        let key = dice.below(plan.keys);
        let other = u32::from(dice.percent(plan.changing));
        (dice.span(Duration::ZERO, plan.spread), key, key * 10 + other)
    });
    tokio::time::sleep(begins).await;
    for _ in 0..world.plan.tries {
        let (ask, leaves) = world.dice(|plan, dice| {
            let way = dice.pick(&[Way::Detached, Way::Detached, Way::Inline, Way::Cancelled]);
            let in_flight =
                if dice.percent(30) { InFlight::Wait(plan.pause(dice)) } else { InFlight::Reject };
            let leaves = dice.percent(plan.leaving).then(|| dice.within(1, 12));
            (Ask { process: 0, key, payload, way, in_flight }, leaves)
        });
        let ask = Ask { process: alive(&world), ..ask };
        let told = ask_once(&world, &engines, ask, leaves).await;
        let (again, pause) = world.dice(|plan, dice| (dice.percent(40), plan.pause(dice)));
        if matches!(told, Told::Fresh(_) | Told::Replayed(_)) && !again {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

/// A process that can be asked.
fn alive(world: &World) -> u32 {
    let alive: Vec<_> = (0..world.processes()).filter(|process| !world.process(*process).dead).collect();
    world.dice(|_, dice| dice.pick(&alive))
}

/// Makes one call; with `leaves` its caller goes away after so many polls.
pub(crate) async fn ask_once(world: &Arc<World>, engines: &Engines, ask: Ask, leaves: Option<u32>) -> Told {
    let call = world.begins_call(ask.process, ask.key, ask.payload);
    let engine =
        engines.lock().unwrap_or_else(std::sync::PoisonError::into_inner)[ask.process as usize].clone();
    let told = {
        let asking = AssertUnwindSafe(asking(world, &engine, ask, call)).catch_unwind();
        let asking = Polled { future: Some(Box::pin(asking)), polls: 0, most: leaves };
        let dies = pin!(world.dies(ask.process));
        match select(asking, dies).await {
            Either::Left((Ok(Ok(outcome)), _)) => judge(outcome),
            Either::Left((Ok(Err(polls)), _)) => {
                world.note(Event::GoesAway(call, polls));
                Told::Gone
            }
            Either::Left((Err(_), _)) => Told::Panicked,
            Either::Right(_) => Told::Gone,
        }
    };
    let excuse = world.plan.tombstone.is_some();
    let rejects = world.plan.on_crash == OnCrash::Reject;
    world.tell(Event::Hears(call, told), |witness, now| match told {
        Told::Replayed(answer) => witness.replays(call, answer, now),
        Told::Refused(kind) => {
            let can_be = match kind {
                ErrorKind::Mismatch => witness.was_bound_to_another(call),
                ErrorKind::KeyExpired => excuse,
                ErrorKind::OutcomeUnknown => rejects,
                ErrorKind::AnswerUnavailable => witness.has_answer(call, TOMBSTONE),
                ErrorKind::InFlight
                | ErrorKind::StoreUnavailable
                | ErrorKind::Overloaded
                | ErrorKind::LeaseLost
                | ErrorKind::Aborted => true,
                _ => false,
            };
            if !can_be {
                witness.breaks(Promise::TrueRefusal, format!("{call} is told {kind:?}"));
            }
        }
        Told::Fresh(answer) if answer != u64::from(call) => {
            witness.breaks(Promise::TrueReplay, format!("{call} is told {answer} as its own"));
        }
        _ => {}
    });
    told
}

type Answer = Result<Outcome<Result<u64, String>>, Error>;

async fn asking(world: &Arc<World>, engine: &Idempotency, ask: Ask, id: CallId) -> Answer {
    let script = Script::new(world);
    let plan = &world.plan;
    let mut call = engine
        .call(ask.key.to_string())
        .key("key")
        .fingerprint(&ask.payload)
        .lease(marked(plan.lease, id))
        .on_crash(plan.on_crash)
        .in_flight(ask.in_flight);
    if let Some(tombstone) = plan.tombstone {
        call = call.expired(Expired::Reject).tombstone_ttl(tombstone);
    }
    let work = {
        let (world, process) = (world.clone(), ask.process);
        move |run| handle(world, id, process, script, run)
    };
    match ask.way {
        Way::Detached => call.run(work).await,
        Way::Inline => call.run_inline(work).await,
        Way::Cancelled => call.on_disconnect(OnDisconnect::Cancel).run(work).await,
    }
}

fn judge(answer: Answer) -> Told {
    match answer {
        Ok(Outcome::Fresh(Ok(answer))) => Told::Fresh(answer),
        Ok(Outcome::Replayed(Ok(answer))) => Told::Replayed(answer),
        Ok(Outcome::Fresh(Err(_))) => Told::FreshErr,
        // Neither is ever stored or asked for here.
        Ok(Outcome::Replayed(Err(_)) | Outcome::Unprotected(_)) => Told::Refused(ErrorKind::Misuse),
        Err(error) => Told::Refused(error.kind()),
    }
}

/// Drops a future after so many polls, wherever it is then; with how many they were.
struct Polled<F> {
    future: Option<Pin<Box<F>>>,
    polls: u32,
    most: Option<u32>,
}

impl<T, F> Future for Polled<F>
where
    F: Future<Output = std::thread::Result<T>>,
{
    type Output = std::thread::Result<Result<T, u32>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        let Some(future) = self.future.as_mut() else { return Poll::Pending };
        if let Poll::Ready(result) = future.as_mut().poll(cx) {
            self.future = None;
            return Poll::Ready(result.map(Ok));
        }
        self.polls += 1;
        if self.most.is_some_and(|most| self.polls >= most) {
            self.future = None;
            return Poll::Ready(Ok(Err(self.polls)));
        }
        Poll::Pending
    }
}
