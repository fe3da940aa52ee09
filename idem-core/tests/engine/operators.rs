//! What an operator can see and decide.

use idem_core::answer::{Answer, Codec};
use idem_core::error::ErrorKind;
use idem_core::key::{Key, Scope};
use idem_core::outcome::Outcome;
use idem_core::policy::OnCrash;
use idem_core::record::State;
use idem_core::store::Settled;
use tokio::time::advance;

use crate::support::{Effects, SECOND, call, charge, engine};

#[tokio::test(start_paused = true)]
async fn an_operator_sees_the_record_but_not_what_it_holds() {
    let (_, engine) = engine();
    let id = engine.record_id("charge", &Scope::SHARED, &Key::new("order-1234567890").unwrap());
    assert_eq!(engine.inspect(&id).await.unwrap(), None);
    let done = call(&engine, "order-1234567890", "a")
        .run(|_| async { Ok::<_, String>("secret-answer".to_owned()) })
        .await;
    assert!(done.is_ok());
    advance(5 * SECOND).await;
    let seen = engine.inspect(&id).await.unwrap().unwrap();
    assert_eq!((seen.state, seen.attempt, seen.operation.as_str()), (State::Completed, 1, "charge"));
    assert_eq!(seen.hint.as_str(), "order-12");
    assert_eq!(seen.age, 5 * SECOND);
    assert_eq!(seen.lease_left, None);
    assert!(seen.expires_in.unwrap() > 86_000 * SECOND);
    assert!(!format!("{seen:?}").contains("secret"));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_outcome_is_settled_with_an_answer_or_forgotten() {
    let (_, engine) = engine();
    for (key, forget) in [("settled", false), ("forgotten", true)] {
        let reject = || call(&engine, key, "a").on_crash(OnCrash::Reject);
        assert!(reject().run(|_| async { Err::<usize, _>("no".to_owned()) }).await.is_ok());
        let id = engine.record_id("charge", &Scope::SHARED, &Key::new(key).unwrap());
        assert_eq!(engine.inspect(&id).await.unwrap().unwrap().state, State::Unknown);
        let effects = Effects::default();
        assert_eq!(charge(reject(), &effects).await.unwrap_err().kind(), ErrorKind::OutcomeUnknown);
        let settled = if forget {
            engine.forget(&id).await.unwrap()
        } else {
            engine.settle(&id, Answer::json(Codec::JsonOk, &42_usize).unwrap()).await.unwrap()
        };
        assert_eq!(settled, Settled::Done);
        let outcome = charge(reject(), &effects).await.unwrap();
        assert_eq!(outcome, if forget { Outcome::Fresh(Ok(1)) } else { Outcome::Replayed(Ok(42)) });
        // What is completed is not settled again.
        let again = engine.settle(&id, Answer::json(Codec::JsonOk, &43_usize).unwrap()).await.unwrap();
        assert_eq!(again, Settled::Refused);
    }
    let absent = engine.record_id("charge", &Scope::SHARED, &Key::new("absent").unwrap());
    assert_eq!(engine.forget(&absent).await.unwrap(), Settled::Absent);
}
