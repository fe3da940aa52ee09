//! Callers that go away: during the claim, the work and the completion.

use std::sync::Arc;
use std::sync::Mutex;

use idem_core::answer::{Answer, Codec};
use idem_core::detach::Carry;
use idem_core::error::ErrorKind;
use idem_core::outcome::Outcome;
use idem_core::policy::{OnDisconnect, Verdict};
use idem_core::run::current;
use tokio::sync::{Notify, oneshot};

use crate::faulty::{Fault, Step};
use crate::support::{Effects, SECOND, begins, call, charge, engine, engine_with};

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_does_not_cancel_the_work() {
    let (_, engine) = engine();
    let effects = Effects::default();
    let (go_on, gone_on) = oneshot::channel::<()>();
    let mut caller = Box::pin(call(&engine, "key", "a").run({
        let effects = effects.clone();
        move |_| async move {
            gone_on.await.unwrap();
            // The run's context goes with it.
            assert_eq!(current().unwrap().attempt(), 1);
            Ok::<_, String>(effects.happen())
        }
    }));
    assert!(begins(&mut caller).await);
    drop(caller);
    assert_eq!(engine.active(), 1);
    let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InFlight);
    go_on.send(()).unwrap();
    assert_eq!(engine.drain(SECOND).await, 0);
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn the_work_may_be_dropped_outside_of_the_runtime() {
    let (_, engine) = engine();
    let effects = Effects::default();
    let begun = Arc::new(Notify::new());
    let mut caller = Box::pin(call(&engine, "key", "a").run({
        let (effects, begun) = (effects.clone(), begun.clone());
        move |_| async move {
            begun.notified().await;
            Ok::<_, String>(effects.happen())
        }
    }));
    assert!(begins(&mut caller).await);
    std::thread::spawn(move || drop(caller)).join().unwrap();
    begun.notify_one();
    assert_eq!(engine.drain(SECOND).await, 0);
    assert_eq!(effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_away_during_the_claim_leaves_nothing_behind() {
    for inline in [false, true] {
        let (store, engine) = engine();
        let effects = Effects::default();
        store.fail(Step::Claim, 1, Fault::Slow(5 * SECOND / 2));
        let caller = call(&engine, "key", "a");
        let work = {
            let effects = effects.clone();
            move |_| async move { Ok::<_, String>(effects.happen()) }
        };
        if inline {
            let mut caller = Box::pin(caller.run_inline(work));
            assert!(begins(&mut caller).await);
        } else {
            let mut caller = Box::pin(caller.run(work));
            assert!(begins(&mut caller).await);
        }
        store.reached(Step::Release, 1).await;
        assert_eq!(engine.drain(SECOND).await, 0);
        assert_eq!(effects.count(), 0);
        // Neither held nor bound.
        assert_eq!(charge(call(&engine, "key", "b"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_stored_though_the_caller_goes_away_while_it_is_written() {
    use OnDisconnect::{Cancel, Finish};
    // Work that has ended cannot be cancelled any more.
    for (inline, on_disconnect, fault) in [
        (false, Finish, Fault::Slow(SECOND)),
        (true, Finish, Fault::Slow(SECOND)),
        (false, Cancel, Fault::Slow(SECOND)),
        (true, Cancel, Fault::Slow(SECOND)),
        (false, Finish, Fault::SlowReply(SECOND)),
        (true, Cancel, Fault::SlowReply(SECOND)),
    ] {
        let (store, engine) = engine();
        let effects = Effects::default();
        store.fail(Step::Complete, 1, fault);
        let caller = call(&engine, "key", "a").on_disconnect(on_disconnect);
        let work = {
            let effects = effects.clone();
            move |_| async move { Ok::<_, String>(effects.happen()) }
        };
        if inline {
            let mut caller = Box::pin(caller.run_inline(work));
            assert!(begins(&mut caller).await);
        } else {
            let mut caller = Box::pin(caller.run(work));
            assert!(begins(&mut caller).await);
        }
        assert_eq!(effects.count(), 1);
        assert_eq!(engine.drain(5 * SECOND).await, 0);
        assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
    }
}

#[tokio::test(start_paused = true)]
async fn cancel_drops_the_work_and_frees_the_key_at_once() {
    let (store, engine) = engine();
    let cancel = || call(&engine, "key", "a").on_disconnect(OnDisconnect::Cancel);
    let mut caller = Box::pin(cancel().run(|_| std::future::pending::<Result<(), String>>()));
    assert!(begins(&mut caller).await);
    drop(caller);
    store.reached(Step::Release, 1).await;
    assert_eq!(engine.drain(SECOND).await, 0);
    let error = charge(call(&engine, "key", "b"), &Effects::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert!(charge(cancel(), &Effects::default()).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_the_work_of_callers_that_are_gone() {
    let (_, engine) = engine();
    let effects = Effects::default();
    for i in 0..50 {
        let effects = effects.clone();
        let mut caller = Box::pin(call(&engine, &format!("key-{i}"), "a").run(move |_| async move {
            tokio::time::sleep(3 * SECOND).await;
            Ok::<_, String>(effects.happen())
        }));
        assert!(begins(&mut caller).await);
    }
    assert_eq!(engine.drain(SECOND).await, 50, "still running after a second");
    assert_eq!(engine.drain(5 * SECOND).await, 0);
    assert_eq!(effects.count(), 50);
}

tokio::task_local! {
    static TENANT: &'static str;
}

#[tokio::test(start_paused = true)]
async fn a_hook_carries_the_applications_task_locals() {
    let (_, engine) = engine_with(|builder| {
        builder.carry(Carry::new(|| {
            let tenant = TENANT.with(|tenant| *tenant);
            move |task| Box::pin(TENANT.scope(tenant, task)) as idem_core::detach::Task
        }))
    });
    let seen = Arc::new(Mutex::new(None));
    let (go_on, gone_on) = oneshot::channel::<()>();
    TENANT
        .scope("acme", async {
            let seen = seen.clone();
            let mut caller = Box::pin(call(&engine, "key", "a").run(move |_| async move {
                gone_on.await.unwrap();
                *seen.lock().unwrap() = Some(TENANT.with(|tenant| *tenant));
                Ok::<_, String>(())
            }));
            assert!(begins(&mut caller).await);
        })
        .await;
    go_on.send(()).unwrap();
    assert_eq!(engine.drain(SECOND).await, 0);
    assert_eq!(*seen.lock().unwrap(), Some("acme"));
}

/// Work that cannot leave its thread: it holds an `Rc`.
fn local_work(
    effects: &Effects,
    gone_on: oneshot::Receiver<()>,
) -> impl Future<Output = (usize, Verdict)> + use<> {
    let effects = std::rc::Rc::new(effects.clone());
    async move {
        gone_on.await.unwrap();
        assert_eq!(current().unwrap().attempt(), 1);
        let effect = effects.happen();
        (effect, Verdict::Complete(Answer::json(Codec::JsonOk, &effect).unwrap()))
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_cannot_leave_its_thread_goes_on_there() {
    let (_, engine) = engine();
    let effects = Effects::default();
    let (go_on, gone_on) = oneshot::channel::<()>();
    let work = local_work(&effects, gone_on);
    let here = async {
        let caller =
            call(&engine, "key", "a").execute_local(move |_| work, |_| unreachable!("nothing is stored"));
        let mut caller = Box::pin(caller);
        assert!(begins(&mut caller).await);
        drop(caller);
        assert_eq!(engine.active(), 1);
        go_on.send(()).unwrap();
        assert_eq!(engine.drain(SECOND).await, 0);
    };
    tokio::task::LocalSet::new().run_until(here).await;
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_hook_carries_task_locals_for_work_that_cannot_leave_its_thread() {
    let (_, engine) = engine_with(|builder| {
        builder.carry(Carry::new(|| {
            let tenant = TENANT.with(|tenant| *tenant);
            move |task| Box::pin(TENANT.scope(tenant, task)) as idem_core::detach::Task
        }))
    });
    let seen = std::rc::Rc::new(std::cell::Cell::new(None));
    let (go_on, gone_on) = oneshot::channel::<()>();
    let local = tokio::task::LocalSet::new();
    let work = {
        let seen = seen.clone();
        async move {
            gone_on.await.unwrap();
            seen.set(Some(TENANT.with(|tenant| *tenant)));
            ((), Verdict::Fail)
        }
    };
    let begin = TENANT.scope("acme", async {
        let caller = call(&engine, "key", "a").execute_local(move |_| work, |_| Ok(()));
        let mut caller = Box::pin(caller);
        assert!(begins(&mut caller).await);
    });
    local
        .run_until(async {
            begin.await;
            go_on.send(()).unwrap();
            assert_eq!(engine.drain(SECOND).await, 0);
        })
        .await;
    assert_eq!(seen.get(), Some("acme"));
}

#[tokio::test(start_paused = true)]
async fn where_no_local_tasks_run_local_work_that_is_dropped_counts_as_crashed() {
    let (_, engine) = engine();
    let effects = Effects::default();
    let (go_on, gone_on) = oneshot::channel::<()>();
    let work = local_work(&effects, gone_on);
    let mut caller = Box::pin(
        call(&engine, "key", "a").execute_local(move |_| work, |_| unreachable!("nothing is stored")),
    );
    assert!(begins(&mut caller).await);
    drop(caller);
    assert!(go_on.is_closed(), "the work is gone");
    let error = charge(call(&engine, "key", "a"), &effects).await.unwrap_err();
    assert_eq!((error.kind(), effects.count()), (ErrorKind::InFlight, 0));
}
