//! Answers that an engine with a keyring stores.

use idem_core::answer::{Answer, Codec};
use idem_core::error::ErrorKind;
use idem_core::key::{Key, Scope};
use idem_core::keyring::Keyring;
use idem_core::outcome::Outcome;
use idem_core::policy::OnCrash;
use idem_core::store::{Settled, StoreErrorKind};

use crate::faulty::{Fault, Step};
use crate::support::{Effects, SECOND, call, charge, engine_with};

fn keyring() -> Keyring {
    Keyring::new(1, [1; 32]).unwrap().refuse_plain()
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_an_operator_gives_is_encrypted_too() {
    let (_, engine) = engine_with(|builder| builder.encrypt_answers(keyring()));
    let reject = || call(&engine, "k-1", "a").on_crash(OnCrash::Reject);
    assert!(reject().run(|_| async { Err::<usize, _>("no".to_owned()) }).await.is_ok());
    let id = engine.record_id("charge", &Scope::SHARED, &Key::new("k-1").unwrap());
    let answer = Answer::json(Codec::JsonOk, &42_usize).unwrap();
    assert_eq!(engine.settle(&id, answer).await.unwrap(), Settled::Done);
    let outcome = charge(reject(), &Effects::default()).await.unwrap();
    assert_eq!(outcome, Outcome::Replayed(Ok(42)));
}

#[tokio::test(start_paused = true)]
async fn a_reader_without_the_key_is_told_which_one_and_nothing_runs() {
    let (store, engine) = engine_with(|builder| builder.encrypt_answers(keyring()));
    let done = call(&engine, "k-1", "a").run(|_| async { Ok::<_, String>("the answer".to_owned()) }).await;
    assert!(done.is_ok());
    let other = idem_core::engine::Idempotency::new(store);
    let effects = Effects::default();
    let error = charge(call(&other, "k-1", "a"), &effects).await.unwrap_err();
    assert_eq!((error.kind(), effects.count()), (ErrorKind::Undecodable, 0));
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "it is encrypted with the key 1, which this engine's keyring does not have");
    assert!(!format!("{error:?}").contains("the answer"));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_encrypted_once_however_often_it_is_offered() {
    let (store, engine) = engine_with(|builder| builder.encrypt_answers(keyring()));
    store.fail(Step::Complete, 3, Fault::Lost(StoreErrorKind::Unavailable));
    let effects = Effects::default();
    assert!(charge(call(&engine, "k-1", "a"), &effects).await.is_ok());
    assert_eq!(engine.drain(5 * SECOND).await, 0);
    let [first, others @ ..] = &store.offered()[..] else { panic!("nothing was offered") };
    assert_eq!(others.len(), 3);
    assert!(others.iter().all(|other| other.as_bytes() == first.as_bytes()));
    assert_eq!(charge(call(&engine, "k-1", "a"), &effects).await.unwrap(), Outcome::Replayed(Ok(1)));
}

#[tokio::test(start_paused = true)]
async fn a_tombstone_that_the_store_takes_instead_is_encrypted_too() {
    let (store, engine) = engine_with(|builder| builder.encrypt_answers(keyring()));
    store.fail(Step::Complete, 2, Fault::Lost(StoreErrorKind::Full));
    let effects = Effects::default();
    assert!(charge(call(&engine, "k-1", "a"), &effects).await.is_ok());
    assert_eq!(engine.drain(5 * SECOND).await, 0);
    let error = charge(call(&engine, "k-1", "a"), &effects).await.unwrap_err();
    assert_eq!((error.kind(), effects.count()), (ErrorKind::AnswerUnavailable, 1));
}
