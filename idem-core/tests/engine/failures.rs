//! Work that fails: by `Err`, by panic, under both crash policies.

use idem_core::error::ErrorKind;
use idem_core::outcome::Outcome;
use idem_core::policy::{Mark, OnCrash};

use crate::faulty::{Fault, Step};
use crate::support::{Effects, SECOND, call, charge, engine};
use idem_core::store::StoreErrorKind;
use serde::{Deserialize, Serialize, Serializer};

#[tokio::test(start_paused = true)]
async fn an_err_is_not_stored_and_the_key_is_free_at_once() {
    let (store, engine) = engine();
    let effects = Effects::default();
    let failed = call(&engine, "key", "a").run(|_| async { Err::<usize, _>("no".to_owned()) }).await;
    assert_eq!(failed.unwrap(), Outcome::Fresh(Err("no".to_owned())));
    assert_eq!((store.count(Step::Release), store.count(Step::Complete)), (1, 0));
    assert_eq!(charge(call(&engine, "key", "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_panic_reaches_the_caller_and_frees_the_key_at_once() {
    let (_, engine) = engine();
    for inline in [false, true] {
        let key = format!("key-{inline}");
        let call_ = call(&engine, &key, "a");
        let panicked = tokio::spawn(async move {
            if inline {
                call_.run_inline(|_| async { panic_now() }).await
            } else {
                call_.run(|_| async { panic_now() }).await
            }
        })
        .await
        .unwrap_err();
        assert_eq!(*panicked.into_panic().downcast::<&str>().unwrap(), "the handler's own panic");
        let error = charge(call(&engine, &key, "b"), &Effects::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch, "bound to its payload");
        let effects = Effects::default();
        assert_eq!(charge(call(&engine, &key, "a"), &effects).await.unwrap(), Outcome::Fresh(Ok(1)));
    }
    assert_eq!(engine.active(), 0);
}

fn panic_now() -> Result<(), String> {
    std::panic::panic_any("the handler's own panic")
}

#[tokio::test(start_paused = true)]
async fn under_reject_whatever_ends_without_an_answer_is_unknown() {
    let (_, engine) = engine();
    let reject = |key| call(&engine, key, "a").on_crash(OnCrash::Reject);
    let failed = reject("err").run(|_| async { Err::<usize, _>("no".to_owned()) }).await;
    assert!(failed.is_ok());
    let panicking = reject("panic");
    assert!(tokio::spawn(async move { panicking.run(|_| async { panic_now() }).await }).await.is_err());
    let effects = Effects::default();
    for key in ["err", "panic"] {
        for call in [reject(key), call(&engine, key, "a")] {
            let error = charge(call, &effects).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::OutcomeUnknown);
        }
    }
    assert_eq!(effects.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn under_reject_a_handler_may_say_that_a_retry_is_right() {
    let (_, engine) = engine();
    let reject = || call(&engine, "key", "a").on_crash(OnCrash::Reject);
    let failed = reject()
        .run(|run| async move {
            run.mark(Mark::Retryable);
            Err::<usize, _>("not yet".to_owned())
        })
        .await;
    assert!(failed.is_ok());
    assert_eq!(charge(reject(), &Effects::default()).await.unwrap(), Outcome::Fresh(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_release_that_cannot_be_written_goes_on_in_the_background() {
    let (store, engine) = engine();
    store.fail(Step::Release, 3, Fault::Lost(StoreErrorKind::Unavailable));
    let failed = call(&engine, "key", "a").run(|_| async { Err::<usize, _>("no".to_owned()) }).await;
    assert_eq!(failed.unwrap(), Outcome::Fresh(Err("no".to_owned())));
    assert_eq!(engine.drain(std::time::Duration::from_secs(5)).await, 0);
    assert_eq!(store.count(Step::Release), 4);
    assert_eq!(charge(call(&engine, "key", "a"), &Effects::default()).await.unwrap(), Outcome::Fresh(Ok(1)));
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        panic!("the destructor's own panic");
    }
}

#[tokio::test(start_paused = true)]
async fn a_destructor_that_panics_in_an_aborted_run_does_not_keep_the_key() {
    let (_, engine) = engine();
    for inline in [false, true] {
        let key = format!("key-{inline}");
        let work = |_| async {
            let _bomb = PanicsWhenDropped;
            std::future::pending::<Result<(), String>>().await
        };
        let call_ = call(&engine, &key, "a").max_run(SECOND);
        let error = if inline { call_.run_inline(work).await } else { call_.run(work).await }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Aborted);
        let again = charge(call(&engine, &key, "a"), &Effects::default()).await;
        assert_eq!(again.unwrap(), Outcome::Fresh(Ok(1)));
    }
}

#[derive(Debug, PartialEq, Deserialize)]
struct PanicsWhenStored(usize);

impl Serialize for PanicsWhenStored {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        panic!("the answer's own panic")
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_panics_as_it_is_stored_is_given_and_its_work_not_done_again() {
    let (_, engine) = engine();
    let effects = Effects::default();
    let run = async || {
        let effects = effects.clone();
        let work = move |_| async move { Ok::<_, String>(PanicsWhenStored(effects.happen())) };
        call(&engine, "key", "a").run(work).await
    };
    assert_eq!(run().await.unwrap(), Outcome::Fresh(Ok(PanicsWhenStored(1))));
    assert_eq!(run().await.unwrap_err().kind(), ErrorKind::AnswerUnavailable);
    assert_eq!(effects.count(), 1);
}
