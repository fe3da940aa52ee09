//! One function for each thing that strangers can send: whatever the bytes, it must not panic, and what it says must
//! hold.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderValue, RETRY_AFTER};
use http::{Method, Uri};
use idem_core::answer::Answer;
use idem_core::fingerprint::{Digest, Fingerprints, JsonMemo, of_json, of_raw};
use idem_core::http::key::{Format, KeyRules, Syntax};
use idem_core::http::request::{CapturedRequest, Headers};
use idem_core::http::response::{decode, encode};
use idem_core::key::{Key, Scope};
use idem_core::keyring::Keyring;
use idem_core::owner::Owner;
use idem_core::record::{RecordId, State};
use idem_core::store::{Claim, OnCrash};
use idem_core::stored::row::{Judgement, Row};

// The attribute reads durations at compile time, in a crate that exports nothing else.
#[allow(dead_code)]
#[path = "../../idem-macros/src/args/duration.rs"]
mod durations;

// How a record stands on Redis is nobody's business but the store's.
#[allow(dead_code, unreachable_pub)]
#[path = "../../idem-redis/src/layout.rs"]
mod layout;

#[allow(dead_code, unreachable_pub)]
#[path = "../../src/client/retry_after.rs"]
mod retry_after;

/// A key's header: what the strict syntax accepts, the lenient one reads alike; a format or a limit never makes another
/// key of it.
pub fn key(data: &[u8]) {
    let Ok(line) = HeaderValue::from_bytes(data) else { return };
    let with = |change: fn(&mut KeyRules)| {
        let mut rules = KeyRules::default();
        change(&mut rules);
        rules.parse([&line])
    };
    let lenient = with(|_| {});
    for narrower in [
        with(|rules| rules.syntax = Syntax::Strict),
        with(|rules| rules.format = Format::Uuid),
        with(|rules| rules.format = Format::UuidV7),
        with(|rules| rules.max_len = 8),
    ] {
        assert!(narrower.is_err() || narrower == lenient);
    }
    if let Ok(key) = lenient {
        assert!(key.hint().as_str().len() <= 8);
    }
}

/// JSON: what has a canonical form keeps its meaning when it is indented, and everything else counts as it is written.
pub fn json(data: &[u8]) {
    let digest = of_json(data);
    assert_eq!(digest, of_json(data));
    if digest == of_raw(data) {
        return;
    }
    assert_eq!(digest, of_json(&[b" \r\n\t", data, b" "].concat()));
    assert_eq!(digest, JsonMemo::new(1).of_json(data));
    assert_ne!(digest, of_json(&[b"[", data, b"]"].concat()));
}

/// Forms: pairs of no length do not count, one pair more does.
pub fn form(data: &[u8]) {
    let of = |body: &[u8]| fingerprint("application/x-www-form-urlencoded", body);
    let digest = of(data);
    assert_eq!(digest, of(&[b"&&", data, b"&"].concat()));
    assert_ne!(digest, of(&[data, b"&one=more"].concat()));
    if let Ok(uri) = Uri::try_from([b"/?", data].concat()) {
        captured("text/plain", &uri, b"").fingerprint("op", &[], &JsonMemo::new(1));
    }
}

/// Multipart: the first line is the boundary, the rest the body. One byte more at the end is another body, unless it is
/// the line that may follow the last boundary.
pub fn multipart(data: &[u8]) {
    let end = data.iter().position(|byte| *byte == b'\n').unwrap_or(data.len());
    let (boundary, body) = (&data[..end], data.get(end + 1..).unwrap_or_default());
    let media_type = [b"multipart/form-data; boundary=", boundary].concat();
    let Ok(media_type) = String::from_utf8(media_type) else { return };
    // More parameters would do below what only another boundary does.
    if HeaderValue::from_str(&media_type).is_err() || boundary.contains(&b';') {
        return;
    }
    let digest = fingerprint(&media_type, body);
    assert_eq!(digest, fingerprint(&media_type, body));
    assert_ne!(digest, fingerprint(&media_type, &[body, b"-"].concat()));
    // Under another boundary a body that was written for the first has no parts.
    assert_ne!(digest, fingerprint(&format!("{media_type}x"), body));
}

/// Durations of the attribute: what is read is longer than nothing, and is a whole number of milliseconds.
pub fn duration(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    match durations::parse_duration(text) {
        Ok(duration) => assert!(!duration.is_zero() && u64::try_from(duration.as_millis()).is_ok()),
        Err(why) => assert!(!why.is_empty()),
    }
}

/// Stored answers: what can be read is written again with the same meaning.
pub fn answer(data: &[u8]) {
    let Ok(response) = decode(&Answer::from_bytes(Bytes::copy_from_slice(data))) else { return };
    let again = encode(response.status(), response.headers(), response.body());
    let read = decode(&again).expect("what was just written can be read");
    assert_eq!((read.status(), read.body()), (response.status(), response.body()));
    assert!(read.headers().iter().all(|(name, _)| response.headers().contains_key(name)));
}

/// Records as Redis keeps them, and what any store's server may have in the columns of a row: whatever it is, a claim is
/// decided by it, and only one that is free is granted.
pub fn record(data: &[u8]) {
    const NOW: i64 = 1_800_000_000_000;
    let Ok(found) = layout::read(Bytes::copy_from_slice(data), NOW) else { return };
    assert!(found.apart.is_none() || found.row.answer.is_none());
    decide(&found.row);
    // In SQL the times are columns, and any number may stand there; the last bytes stand for them.
    let mut numbers =
        data.rchunks_exact(8).map(|bytes| i64::from_be_bytes(bytes.try_into().expect("eight bytes")));
    let mut number = || numbers.next().unwrap_or(i64::MAX);
    let [created_at, lease_until, expires_at, gone_at, now] = [(); 5].map(|()| number());
    decide(&Row { created_at, lease_until, expires_at, gone_at, now, ..found.row });
}

fn decide(row: &Row) {
    let claim = |fingerprints| Claim {
        owner: Owner::from_bytes([0xa5; 16]),
        fingerprints,
        lease: Duration::from_secs(30),
        binding: Duration::from_mins(1),
        on_crash: OnCrash::Retry,
        rebind: false,
    };
    let holds = *row.owner.as_bytes() == [0xa5; 16];
    for fingerprints in [Fingerprints::none(), Fingerprints::new(row.fingerprint)] {
        if let Judgement::Free { .. } = row.judge(&claim(fingerprints)) {
            assert!(row.is_free() || holds);
        }
    }
    let record = row.clone().into_record();
    assert!(record.answer.is_none() || record.state == State::Completed);
    assert!(record.lease_left.is_none() || record.state == State::InFlight);
}

/// Sealed answers: what was not sealed does not open; what was opens as it was, and not once a bit of it is another.
pub fn sealed(data: &[u8]) {
    let Ok(keyring) = Keyring::new(1, [1; 32]) else { return };
    let keyring = keyring.refuse_plain();
    let record = |key: &str| RecordId::new(&Scope::SHARED, &"op".into(), &Key::new(key).expect("a key"));
    let id = record("k-1");
    let read = |bytes: Bytes, id: &RecordId| {
        keyring.open(id, Answer::from_bytes(bytes)).and_then(|answer| answer.open())
    };
    let answer = Answer::from_bytes(Bytes::copy_from_slice(data));
    assert!(read(answer.as_bytes().clone(), &id).is_err());
    if answer.open().is_err() {
        return;
    }
    let sealed = keyring.seal(&id, answer.clone());
    assert_eq!(keyring.open(&id, sealed.clone()), Ok(answer));
    assert!(read(sealed.as_bytes().clone(), &record("k-2")).is_err());
    let mut changed = sealed.as_bytes().to_vec();
    let at = data.iter().fold(0, |at: usize, byte| at.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let len = changed.len();
    changed[at % len] ^= 1 << (at / len % 8);
    assert!(read(changed.into(), &id).is_err());
}

/// `Retry-After` of a server, and after a line feed its `Date`: whole seconds, and never a panic.
pub fn retry_after(data: &[u8]) {
    let mut lines = data.splitn(2, |byte| *byte == b'\n');
    let mut headers = HeaderMap::new();
    for name in [RETRY_AFTER, DATE] {
        let Some(Ok(value)) = lines.next().map(HeaderValue::from_bytes) else { continue };
        headers.insert(name, value);
    }
    let asked = retry_after::asked(&headers, || SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_017));
    if let Some(asked) = asked {
        assert_eq!(asked.subsec_nanos(), 0);
        assert!(headers.contains_key(RETRY_AFTER));
    }
}

fn captured(media_type: &str, uri: &Uri, body: &[u8]) -> CapturedRequest {
    let mut headers = HeaderMap::new();
    if let Ok(media_type) = HeaderValue::from_str(media_type) {
        headers.insert(CONTENT_TYPE, media_type);
    }
    CapturedRequest::new(&Method::POST, uri, &headers, Headers::All).with_body(Bytes::copy_from_slice(body))
}

fn fingerprint(media_type: &str, body: &[u8]) -> Digest {
    captured(media_type, &Uri::from_static("/"), body).fingerprint("op", &[], &JsonMemo::new(1))
}
