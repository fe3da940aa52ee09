use std::collections::HashMap;

use idem_core::fingerprint::{
    Comparison, Digest, Fingerprint, Hasher, JsonMemo, SecretError, Secrets, of_json, of_raw,
};
use proptest::prelude::*;

use crate::vectors::{hex, hex_of};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Part {
    Bytes(String, Vec<u8>),
    Digest(String, [u8; 1]),
    Value(String, u8),
}

fn digest_of(operation: &str, parts: &[Part]) -> Digest {
    let mut hasher = Hasher::new(operation);
    for part in parts {
        match part {
            Part::Bytes(label, bytes) => hasher.bytes(label, bytes),
            Part::Digest(label, of) => hasher.digest(label, of_raw(of)),
            Part::Value(label, value) => hasher.value(label, value).unwrap(),
        }
    }
    hasher.finish()
}

#[test]
fn parts_match_their_vector() {
    let mut hasher = Hasher::new("payments.create");
    hasher.bytes("path", b"/charges");
    hasher.digest("body", of_json(br#"{"amount":1}"#));
    hasher.value("order", &7).unwrap();
    assert_eq!(hex_of(hasher.finish()), "c70980f96234bfc9701f55681370f40d0b392ade37d11703bfb9d770832e4c06");
}

#[test]
fn a_delimiter_that_the_client_can_send_does_not_join_two_parts() {
    let pairs = [("a:b", "c"), ("a", "b:c"), ("", "a:b:c"), ("a:b:c", "")];
    let digests = pairs.map(|(left, right)| {
        digest_of("op", &[Part::Bytes("x".into(), left.into()), Part::Bytes("x".into(), right.into())])
    });
    for (at, digest) in digests.iter().enumerate() {
        assert!(!digests[at + 1..].contains(digest), "{:?}", pairs[at]);
    }
}

#[test]
fn one_payload_differs_in_every_operation() {
    assert_ne!(digest_of("payments.create", &[]), digest_of("payments.refund", &[]));
}

/// Few letters, so that lists that look alike when joined come up often.
fn parts() -> impl Strategy<Value = (String, Vec<Part>)> {
    let part = prop_oneof![
        ("[ab]{0,2}", proptest::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), any::<u8>()], 0..4))
            .prop_map(|(label, bytes)| Part::Bytes(label, bytes)),
        ("[ab]{0,2}", any::<[u8; 1]>()).prop_map(|(label, of)| Part::Digest(label, of)),
        ("[ab]{0,2}", any::<u8>()).prop_map(|(label, value)| Part::Value(label, value)),
    ];
    ("[ab]{0,2}", proptest::collection::vec(part, 0..4))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn different_parts_have_different_digests(all in proptest::collection::vec(parts(), 20)) {
        let mut seen = HashMap::new();
        for (operation, parts) in all {
            let digest = digest_of(&operation, &parts);
            if let Some(other) = seen.insert(digest, (operation.clone(), parts.clone())) {
                prop_assert_eq!(other, (operation, parts));
            }
        }
    }

    #[test]
    fn any_split_of_the_same_bytes_is_another_request(bytes: Vec<u8>, at: usize, other: usize) {
        let at = at % (bytes.len() + 1);
        let other = other % (bytes.len() + 1);
        let split = |at: usize| {
            let part = |bytes: &[u8]| Part::Bytes("x".into(), bytes.to_vec());
            digest_of("op", &[part(&bytes[..at]), part(&bytes[at..])])
        };
        prop_assert_eq!(split(at) == split(other), at == other);
    }
}

fn key() -> [u8; 32] {
    std::array::from_fn(|at| at as u8)
}

#[test]
fn sealed_digests_match_their_vectors() {
    let digest = of_raw(b"hello");
    let stored = |secrets: &Secrets| hex(&secrets.seal(digest).current().to_bytes());
    assert_eq!(
        stored(&Secrets::none()),
        "0100000000e9228f41bec5caf33eb8b658705967602a636a47fa481672226cb6541f5e82a6"
    );
    assert_eq!(
        stored(&Secrets::new(258, key()).unwrap()),
        "01000001028aad42bf183b6452debc002542a23fd28d4bcdeb1c2e0dca010f4033b29898ca"
    );
    assert_eq!(
        stored(&Secrets::new(1, "k".repeat(100)).unwrap()),
        "010000000166edb624d2655650eb345823aeb135aece3be2607926d2134f83cdbd675456a8"
    );
}

/// What a process with `now` says to a record that one with `before` has made: of the same payload, of another.
fn meets(before: &Secrets, now: &Secrets) -> (Comparison, Comparison) {
    let stored = Fingerprint::from_bytes(&before.seal(of_raw(b"payload")).current().to_bytes()).unwrap();
    (now.seal(of_raw(b"payload")).compare(&stored), now.seal(of_raw(b"another")).compare(&stored))
}

const RECOGNISED: (Comparison, Comparison) = (Comparison::Same, Comparison::Different);
const UNKNOWN: (Comparison, Comparison) = (Comparison::Incomparable, Comparison::Incomparable);

#[test]
fn rotating_a_secret_never_turns_a_live_record_into_a_mismatch() {
    let old = Secrets::new(1, "old").unwrap();
    let announced = Secrets::new(1, "old").unwrap().also(2, "new").unwrap();
    let rotated = Secrets::new(2, "new").unwrap().also(1, "old").unwrap();
    let done = Secrets::new(2, "new").unwrap();
    // Each pair is side by side during a deploy, so each must know what the other writes.
    for (one, next) in [(&old, &announced), (&announced, &rotated), (&rotated, &done)] {
        assert_eq!(meets(one, next), RECOGNISED);
        assert_eq!(meets(next, one), RECOGNISED);
    }
    assert_eq!(meets(&old, &done), UNKNOWN);
}

#[test]
fn introducing_a_secret_never_turns_a_live_record_into_a_mismatch() {
    let none = Secrets::none();
    let announced = Secrets::none().also(1, "new").unwrap();
    let introduced = Secrets::new(1, "new").unwrap().accept_unkeyed();
    let done = Secrets::new(1, "new").unwrap();
    assert_eq!(meets(&none, &announced), RECOGNISED);
    assert_eq!(meets(&announced, &introduced), RECOGNISED);
    assert_eq!(meets(&introduced, &announced), RECOGNISED);
    assert_eq!(meets(&introduced, &done), RECOGNISED);
    assert_eq!(meets(&none, &done), UNKNOWN);
}

#[test]
fn a_sealed_fingerprint_depends_on_the_secret() {
    let stored = |secret: &str| Secrets::new(1, secret).unwrap().seal(of_raw(b"x")).current().to_bytes();
    assert_ne!(stored("one"), stored("two"));
    assert_ne!(stored("one")[5..], *of_raw(b"x").as_bytes());
}

#[test]
fn unusable_secrets_are_refused_with_a_reason() {
    let refused = |result: Result<Secrets, SecretError>| result.map(|_| ()).unwrap_err().to_string();
    assert_eq!(refused(Secrets::new(0, "s")), "secret id 0 stands for no secret; number secrets from 1");
    assert_eq!(
        refused(Secrets::new(7, "")),
        "the fingerprint secret with id 7 is empty; give 32 random bytes"
    );
    let two = "two fingerprint secrets have the id 7; give each its own";
    assert_eq!(refused(Secrets::new(7, "s").unwrap().also(7, "t")), two);
    assert_eq!(refused(Secrets::none().also(7, "s").unwrap().also(7, "t")), two);
    assert!(Secrets::none().also(0, "s").is_err());
}

#[test]
fn debug_never_shows_a_secret() {
    let secrets = Secrets::new(1, "hunter2").unwrap().also(2, "hunter3").unwrap();
    assert_eq!(format!("{secrets:?}"), "Secrets { signs: Some(1), recognised: [2], accept_unkeyed: false }");
}

#[test]
fn a_memo_says_what_reading_the_document_says() {
    let bodies = || (0..500).flat_map(|i| [format!("{{ \"b\":{i}, \"a\":1 }}"), format!("{{ broken {i}")]);
    for capacity in [0, 1, 64, 4096] {
        let memo = JsonMemo::new(capacity);
        for _ in 0..2 {
            for body in bodies() {
                assert_eq!(memo.of_json(body.as_bytes()), of_json(body.as_bytes()), "{capacity}: {body}");
            }
        }
    }
}

#[test]
fn a_memo_can_be_shared_by_threads() {
    let memo = JsonMemo::new(8);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for i in 0..2000 {
                    let body = format!("[ {} ]", i % 50);
                    assert_eq!(memo.of_json(body.as_bytes()), of_json(body.as_bytes()));
                }
            });
        }
    });
}
