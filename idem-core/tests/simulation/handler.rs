//! Handlers: what a call does once it is granted.

use std::sync::Arc;
use std::time::Duration;

use idem_core::policy::Mark;
use idem_core::run::Run;

use crate::broken::Broken;
use crate::trace::{CallId, Event};
use crate::world::World;

/// What a handler is going to do, decided beforehand.
#[derive(Debug)]
pub(crate) struct Script {
    before: Vec<Duration>,
    after: Vec<Duration>,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Answers,
    Fails,
    /// Fails before its effect, and says that it may run again.
    FailsFirst,
    Panics,
    /// Never ends.
    Hangs,
}

impl Script {
    pub(crate) fn new(world: &World) -> Self {
        world.dice(|plan, dice| {
            let mut pauses = |most| (0..dice.below(most)).map(|_| plan.pause(dice)).collect();
            let (before, after) = (pauses(4), pauses(3));
            let end = if dice.percent(plan.failing) {
                dice.pick(&[
                    End::Fails,
                    End::Fails,
                    End::FailsFirst,
                    End::FailsFirst,
                    End::Panics,
                    End::Hangs,
                ])
            } else {
                End::Answers
            };
            Self { before, after, end }
        })
    }
}

/// Waits as a handler does, of which nothing is seen once its process is dead.
async fn pause(world: &World, process: u32, pauses: Vec<Duration>) {
    for pause in pauses {
        if pause.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(pause).await;
        }
        world.lives(process).await;
    }
}

/// Runs under a claim: has one effect, or none, and answers with the number of its call.
pub(crate) async fn handle(
    world: Arc<World>,
    call: CallId,
    process: u32,
    script: Script,
    run: Run,
) -> Result<u64, String> {
    let Script { before, after, end } = script;
    world.lives(process).await;
    world.tell(Event::Begins(call, run.attempt()), |witness, _| witness.begins(call, run.attempt()));
    pause(&world, process, before).await;
    if end == End::FailsFirst {
        run.mark(Mark::Retryable);
        world.tell(Event::Ends(call), |witness, _| witness.excuses(call));
        return Err("not now".to_owned());
    }
    world.tell(Event::Acts(call), |witness, _| witness.acts(call));
    pause(&world, process, after).await;
    if end == End::Hangs || world.broken == Some(Broken::NoCeiling) {
        return std::future::pending().await;
    }
    world.tell(Event::Ends(call), |witness, now| {
        if end == End::Answers {
            witness.answers(call, now);
        }
    });
    match end {
        End::Fails => Err("declined".to_owned()),
        // Without the hook that prints.
        End::Panics => std::panic::resume_unwind(Box::new("a handler's own fault")),
        _ => Ok(u64::from(call)),
    }
}
