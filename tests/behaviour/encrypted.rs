//! What a keyring promises: answers encrypted at rest.

use std::time::Duration;

use axum::http::HeaderMap;
use idem::core::answer::Answer;
use idem::core::fingerprint::Fingerprints;
use idem::core::owner::Owner;
use idem::core::store::{Claim, Claimed, Fenced, Retention, Store};
use idem::{Keyring, OnCrash, RecordId};

use crate::server::{Server, Setup};
use crate::stores::Kind;

const BODY: &str = "a body that nobody but its caller reads";

fn old() -> Keyring {
    Keyring::new(1, [1; 32]).unwrap()
}

fn new() -> Keyring {
    Keyring::new(2, [2; 32]).unwrap()
}

fn answering(setup: Setup, keyring: Keyring) -> Setup {
    setup
        .work(|_| async { ([("location", "/charges/of-its-caller")], BODY) })
        .configure(|builder| builder.encrypt_answers(keyring))
}

async fn stored(server: &Server, key: &str) -> Answer {
    server.store.look_up(&server.id(key)).await.unwrap().unwrap().answer.unwrap()
}

/// Puts an answer under a key whose request failed, as somebody who can write to the store would.
async fn put(server: &Server, id: &RecordId, answer: &Answer) {
    let owner = Owner::random();
    let hour = Duration::from_hours(1);
    let claim = Claim {
        owner,
        fingerprints: Fingerprints::none(),
        lease: hour,
        binding: hour,
        on_crash: OnCrash::Retry,
        rebind: true,
    };
    assert!(matches!(server.store.claim(id, &claim).await.unwrap(), Claimed::Granted { .. }));
    let retention = Retention { ttl: hour, tombstone_ttl: None };
    assert_eq!(server.store.complete(id, owner, answer, retention).await.unwrap(), Fenced::Held);
}

/// encryption
pub(crate) async fn with_a_keyring_the_store_keeps_nothing_of_an_answer_in_clear(kind: Kind) {
    let server = answering(Setup::on(kind).await, old().refuse_plain()).start().await;
    let first = server.charge("k-1", "a").await;
    first.assert_fresh(200, BODY);
    server.charge("k-1", "a").await.assert_replays(&first);
    assert_eq!(server.runs(), 1);
    let mut written = server.opened.written();
    written.extend_from_slice(stored(&server, "k-1").await.as_bytes());
    for secret in [BODY, "of-its-caller"] {
        assert!(!written.windows(secret.len()).any(|window| window == secret.as_bytes()), "`{secret}`");
    }
}

/// encryption
pub(crate) async fn an_answer_that_was_tampered_with_is_an_error_and_never_a_second_run(kind: Kind) {
    let server = answering(Setup::on(kind).await, old().refuse_plain()).start().await;
    server.charge("k-1", "a").await;
    let sealed = stored(&server, "k-1").await;
    let cut = Answer::from_bytes(sealed.as_bytes().slice(..sealed.as_bytes().len() - 1));
    let mut changed = sealed.as_bytes().to_vec();
    changed[40] ^= 1;
    let plain = idem::core::http::response::encode(200.try_into().unwrap(), &HeaderMap::new(), b"forged");
    for (key, answer) in
        [("moved", sealed), ("cut", cut), ("changed", Answer::from_bytes(changed)), ("in-clear", plain)]
    {
        put(&server, &server.id(key), &answer).await;
        for _ in 0..2 {
            let error = server.charge(key, "a").await;
            error.assert_problem(500, "idempotency_undecodable");
            assert!(!error.text().contains("forged") && error.retry_after().is_none(), "{key}");
        }
    }
    assert_eq!(server.runs(), 1);
}

/// encryption
pub(crate) async fn answers_are_replayed_across_the_rotation_of_their_key_and_not_after_it_is_dropped(
    kind: Kind,
) {
    let before = Setup::on(kind).await.work(|_| async { BODY }).start().await;
    let in_clear = before.charge("in-clear", "a").await;
    let introduced = answering(before.beside(), old()).start().await;
    let sealed = introduced.charge("sealed", "a").await;
    let rotated = answering(before.beside(), new().also(1, [1; 32]).unwrap()).start().await;
    for server in [&introduced, &rotated] {
        server.charge("in-clear", "a").await.assert_replays(&in_clear);
        server.charge("sealed", "a").await.assert_replays(&sealed);
    }
    let last = rotated.charge("last", "a").await;
    let dropped = answering(before.beside(), new()).start().await;
    dropped.charge("last", "a").await.assert_replays(&last);
    dropped.charge("sealed", "a").await.assert_problem(500, "idempotency_undecodable");
    before.charge("sealed", "a").await.assert_problem(500, "idempotency_undecodable");
    assert_eq!(before.runs(), 3);
}

/// encryption
pub(crate) async fn an_answer_that_the_store_does_not_take_is_an_encrypted_tombstone(kind: Kind) {
    let server = answering(Setup::on(kind).await, old().refuse_plain()).start().await;
    server.store.take_answers_up_to(64);
    server.charge("k-1", "a").await.assert_fresh(200, BODY);
    server.settled().await;
    server.charge("k-1", "a").await.assert_problem(410, "idempotency_response_unavailable");
    assert_eq!(server.runs(), 1);
}
