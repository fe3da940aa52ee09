use super::*;
use crate::answer::{AnswerKind, Codec};
use crate::key::{Key, Scope};

fn record(key: &str) -> RecordId {
    RecordId::new(&Scope::SHARED, &"charge".into(), &Key::new(key).unwrap())
}

fn answer() -> Answer {
    Answer::json(Codec::JsonOk, "four words in clear").unwrap()
}

fn keyring() -> Keyring {
    Keyring::new(7, [7; 32]).unwrap()
}

fn reason(result: Result<Answer, Undecodable>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn what_was_sealed_opens_as_it_was() {
    let (keyring, id) = (keyring(), record("k-1"));
    for answer in [
        answer(),
        Answer::tombstone(Codec::Http),
        Answer::build(AnswerKind::Full, Codec::Http, 0, |body| body.put_bytes(b'x', 1 << 20)),
    ] {
        let sealed = keyring.seal(&id, answer.clone());
        assert_eq!(sealed.as_bytes().len(), answer.as_bytes().len() + ID_LEN + NONCE_LEN + TAG_LEN);
        assert_eq!(keyring.open(&id, sealed.clone()).unwrap(), answer);
        assert_ne!(sealed, keyring.seal(&id, answer), "two sealings have two nonces");
    }
}

#[test]
fn a_sealed_answer_shows_nothing_of_what_it_holds() {
    let sealed = keyring().seal(&record("k-1"), answer());
    assert!(!sealed.as_bytes().windows(4).any(|four| four == b"four"));
    assert!(
        sealed.open().unwrap_err().to_string().contains("it is encrypted"),
        "a reader without the engine is told"
    );
}

/// libsodium makes the same of the key, the nonce and the associated data.
#[test]
fn a_sealed_answer_is_these_bytes_for_ever() {
    let key = SealingKey::new(7, &[7; 32]).unwrap();
    let answer = Answer::json(Codec::JsonOk, "hi").unwrap();
    let sealed = key.seal(&record("k-1"), &answer, [9; NONCE_LEN]).unwrap();
    assert_eq!(
        hex(sealed.as_bytes()),
        "01000101000000070909090909090909090909090909090909090909090909099c1a8ba81525835b460ae9c65ccb73d9d5eba917"
    );
    assert_eq!(keyring().open(&record("k-1"), sealed).unwrap(), answer);
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

#[test]
fn an_answer_that_was_changed_or_cut_anywhere_does_not_open() {
    // Otherwise one bit of the transform makes an answer in clear of it, of bytes that nobody's type reads.
    let (keyring, id) = (keyring().refuse_plain(), record("k-1"));
    let sealed = keyring.seal(&id, answer());
    let read =
        |bytes: &[u8]| keyring.open(&id, Answer::from_bytes(bytes.to_vec())).and_then(|answer| answer.open());
    assert!(read(sealed.as_bytes()).is_ok());
    for at in 0..sealed.as_bytes().len() {
        for bit in 0..8 {
            let mut bytes = sealed.as_bytes().to_vec();
            bytes[at] ^= 1 << bit;
            assert!(read(&bytes).is_err(), "byte {at}, bit {bit}");
        }
        assert!(read(&sealed.as_bytes()[..at]).is_err(), "cut after {at} bytes");
    }
    let longer = [sealed.as_bytes(), &b"x"[..]].concat();
    assert!(read(&longer).is_err());
}

#[test]
fn an_answer_opens_as_that_of_its_own_record_only() {
    let keyring = keyring();
    let sealed = keyring.seal(&record("k-1"), answer());
    assert!(reason(keyring.open(&record("k-2"), sealed)).contains("belongs to another record"));
}

#[test]
fn a_rotated_key_opens_what_it_has_sealed_until_it_is_dropped() {
    let id = record("k-1");
    let old = Keyring::new(1, [1; 32]).unwrap();
    let sealed = old.seal(&id, answer());
    let new = || Keyring::new(2, [2; 32]).unwrap();
    let both = new().also(1, [1; 32]).unwrap();
    assert_eq!(both.open(&id, sealed.clone()).unwrap(), answer());
    assert_eq!(old.also(2, [2; 32]).unwrap().open(&id, both.seal(&id, answer())).unwrap(), answer());
    let reason = reason(new().open(&id, sealed));
    assert_eq!(reason, "it is encrypted with the key 1, which this engine's keyring does not have");
}

#[test]
fn another_key_under_the_same_id_opens_nothing() {
    let id = record("k-1");
    let sealed = keyring().seal(&id, answer());
    assert!(Keyring::new(7, [8; 32]).unwrap().open(&id, sealed).is_err());
}

#[test]
fn an_answer_in_clear_is_read_until_it_is_refused() {
    let id = record("k-1");
    assert_eq!(keyring().open(&id, answer()).unwrap(), answer());
    assert!(reason(keyring().refuse_plain().open(&id, answer())).contains("in clear"));
    assert_eq!(Keyring::none().seal(&id, answer()), answer());
}

#[test]
fn a_key_has_32_bytes_and_an_id_of_its_own() {
    let error = Keyring::new(3, "too short").unwrap_err();
    assert_eq!(error.to_string(), "the key with id 3 has 9 bytes; give 32 random ones");
    let error = Keyring::new(3, [3; 32]).unwrap().also(3, [4; 32]).unwrap_err();
    assert_eq!(error.to_string(), "two keys have the id 3; give each its own");
}

#[test]
fn debug_shows_the_ids_of_keys_and_no_key() {
    let keyring = keyring().also(8, *b"thirty-two bytes, one by one ...").unwrap();
    assert_eq!(format!("{keyring:?}"), "Keyring { seals: Some(7), opens: [8], refuse_plain: false }");
}
