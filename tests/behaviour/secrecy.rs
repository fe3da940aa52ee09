//! What nobody may read who is not the caller: keys, scopes, payloads, answers.

use std::collections::HashSet;
use std::error::Error as _;
use std::fmt::{Debug, Write as _};
use std::time::Duration;

use idem::core::answer::Answer;
use idem::core::store::StoreErrorKind;
use idem::{Call, Error, ErrorKind, Idempotency, Key, Keyring, Mark, OnCrash, Scope, Store as _};

use crate::faulty::{Fault, Step};
use crate::logs::Logs;
use crate::server::Setup;
use crate::stores::Kind;

const KEY: &str = "key-of-nobody-else";
const SCOPE: &str = "scope-of-alice";
const PAYLOAD: &str = "payload-of-alice";
const ANSWER: &str = "answer-to-alice";

/// What somebody could read of a course.
#[derive(Default)]
struct Shown {
    text: String,
    kinds: HashSet<ErrorKind>,
}

impl Shown {
    fn see(&mut self, thing: &dyn Debug) {
        writeln!(self.text, "{thing:?} {thing:#?}").unwrap();
    }

    fn error<T>(&mut self, result: Result<T, Error>) {
        let Err(error) = result else { return };
        self.kinds.insert(error.kind());
        self.see(&error);
        writeln!(self.text, "{error} {:?} {:?}", error.detail(), error.help()).unwrap();
        let mut source = error.source();
        while let Some(cause) = source {
            writeln!(self.text, "{cause} {cause:?}").unwrap();
            source = cause.source();
        }
    }
}

fn call(idem: &Idempotency, key: &str) -> Call {
    idem.call("pay").key(&format!("order-17-{key}-{KEY}")).scope(SCOPE).fingerprint(PAYLOAD)
}

async fn answer(call: Call) -> Result<(), Error> {
    call.run(async |_| Ok::<_, String>(ANSWER.to_owned())).await.map(drop)
}

async fn fail(call: Call) -> Result<(), Error> {
    call.run(async |_| Err::<String, _>(ANSWER.to_owned())).await.map(drop)
}

/// 1.4
pub(crate) async fn whatever_befalls_a_call_nothing_of_key_scope_payload_and_answer_is_shown(kind: Kind) {
    let logs = Logs::default();
    let _guard = tracing::subscriber::set_default(logs.clone());
    let server = Setup::on(kind).await.start().await;
    let (idem, store, mut shown) = (server.idem(), &server.store, Shown::default());
    let over =
        |keyring: Keyring| Idempotency::builder(store.clone()).encrypt_answers(keyring).build().unwrap();

    shown.error(answer(call(idem, "done")).await);
    shown.error(answer(call(idem, "done")).await);
    shown.error(answer(call(idem, "done").fingerprint(&format!("another-{PAYLOAD}"))).await);
    shown.error(call(idem, "done").run(async |_| Ok::<_, String>(17)).await);
    shown.error(fail(call(idem, "failed")).await);
    shown.error(fail(call(idem, "failed").fingerprint("another")).await);
    shown.error(fail(call(idem, "unknown").on_crash(OnCrash::Reject)).await);
    shown.error(fail(call(idem, "unknown").on_crash(OnCrash::Reject)).await);
    let nested = call(idem, "nested").run_inline(async |run| {
        run.mark(Mark::Tombstone);
        Ok::<_, String>(answer(call(idem, "nested")).await.unwrap_err().to_string())
    });
    writeln!(shown.text, "{:?}", nested.await).unwrap();
    shown.error(answer(call(idem, "nested")).await);
    shown.error(
        call(idem, "long")
            .max_run(Duration::from_millis(1))
            .run(async |_| std::future::pending::<Result<(), String>>().await)
            .await,
    );

    let (sealing, other) = (over(Keyring::new(1, [1; 32]).unwrap()), over(Keyring::new(2, [2; 32]).unwrap()));
    shown.error(answer(call(&sealing, "sealed")).await);
    shown.error(answer(call(&other, "sealed")).await);
    shown.error(answer(call(idem, "sealed")).await);
    let few = Idempotency::builder(store.clone()).max_new_keys(1, Duration::from_hours(1)).build().unwrap();
    shown.error(answer(call(&few, "one")).await);
    shown.error(answer(call(&few, "another")).await);

    store.fail(Step::Complete, 2, Fault::Lost(StoreErrorKind::Unavailable));
    shown.error(answer(call(idem, "late")).await);
    server.settled().await;
    store.fail(Step::Claim, 9, Fault::Lost(StoreErrorKind::Unavailable));
    shown.error(answer(call(idem, "away")).await);
    shown.error(answer(call(idem, "unprotected").on_store_error(idem::OnStoreError::Run)).await);
    store.heal();
    server.settled().await;
    shown.error(answer(idem.call("pay").key(&KEY.repeat(99)).scope(SCOPE).fingerprint(PAYLOAD)).await);
    shown.error(answer(call(idem, "scope").scope(&SCOPE.repeat(99))).await);

    let key = Key::new(&format!("order-17-done-{KEY}")).unwrap();
    let id = idem.record_id("pay", &Scope::new(SCOPE).unwrap(), &key);
    shown.see(&(&key, &id, Scope::new(SCOPE), call(idem, "debug"), idem, &sealing, sealing.config()));
    shown.see(&store.look_up(&id).await.unwrap().expect("it is done"));
    shown.see(&idem.inspect(&id).await.unwrap());
    shown.see(&Answer::from_bytes(ANSWER));
    writeln!(shown.text, "{id} {}", key.hint().as_str()).unwrap();

    for kind in [
        ErrorKind::Mismatch,
        ErrorKind::Undecodable,
        ErrorKind::OutcomeUnknown,
        ErrorKind::AnswerUnavailable,
        ErrorKind::Aborted,
        ErrorKind::TooManyKeys,
        ErrorKind::StoreUnavailable,
        ErrorKind::KeyInvalid,
        ErrorKind::ScopeInvalid,
    ] {
        assert!(shown.kinds.contains(&kind), "{kind:?} did not befall it: {:?}", shown.kinds);
    }
    let text = logs.text() + &shown.text;
    assert!(text.contains("order-17") && text.contains("pay"), "nothing was shown at all: {text}");
    for secret in [KEY, SCOPE, PAYLOAD, ANSWER] {
        assert!(!text.contains(secret), "`{secret}` is shown in {text}");
    }
}
