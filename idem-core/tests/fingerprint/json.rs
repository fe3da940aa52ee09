use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use idem_core::fingerprint::{of_json, of_raw};
use proptest::prelude::*;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::vectors::{documented, hex_of, read};

#[test]
fn documents_match_their_vectors() {
    let vectors = read(include_str!("../vectors/json.txt"));
    assert!(vectors.len() > 90, "only {} vectors read", vectors.len());
    for vector in vectors {
        let shown = String::from_utf8_lossy(&vector.what).into_owned();
        assert_eq!(hex_of(of_json(&vector.what)), vector.digest, "{shown}");
        let documented = match &vector.encoded[..] {
            b"-" => documented(b'r', &vector.what),
            encoded => documented(b'j', encoded),
        };
        assert_eq!(documented, vector.digest, "{shown}");
    }
}

fn canonical(body: &[u8]) -> bool {
    of_json(body) != of_raw(body)
}

#[test]
fn a_document_too_large_to_hold_at_once_is_hashed_like_a_small_one() {
    let numbers = |separator: &str| (0..20_000).map(|i| i.to_string()).collect::<Vec<_>>().join(separator);
    let encoded = (0..20_000).map(|i: u32| {
        let text = i.to_string();
        let digits = text.trim_end_matches('0');
        match text.len() - digits.len() {
            _ if i == 0 => "#0;".into(),
            0 => format!("#{digits};"),
            zeros => format!("#{digits}e{zeros};"),
        }
    });
    let encoded = format!("[{}]", encoded.collect::<String>());
    let body = format!("[{}]", numbers(" , "));
    assert_eq!(hex_of(of_json(body.as_bytes())), documented(b'j', encoded.as_bytes()));
    assert_ne!(of_json(body.as_bytes()), of_json(body.replace("19999", "19998").as_bytes()));
    let object = |one: &str, other: &str| format!("[{{\"{one}\":{body},\"{other}\":{body}}}]");
    let encoded = format!("[{{\"\x01a{encoded}\"\x01b{encoded}}}]");
    for object in [object("a", "b"), object("b", "a")] {
        assert_eq!(hex_of(of_json(object.as_bytes())), documented(b'j', encoded.as_bytes()));
    }
    let cut = &body.as_bytes()[..body.len() - 1];
    assert_eq!(of_json(cut), of_raw(cut));
}

#[test]
fn one_changed_byte_anywhere_in_a_large_body_is_another_request() {
    for size in [1, 64 * 1024, 900 * 1024] {
        let body = format!("{{\"z\":1,\"text\":\"{}\"}}", "x".repeat(size));
        let digest = of_json(body.as_bytes());
        for at in [15, 15 + size / 2, 14 + size] {
            let mut changed = body.clone().into_bytes();
            changed[at.min(14 + size)] = b'y';
            assert!(canonical(&changed));
            assert_ne!(of_json(&changed), digest, "{size} bytes, at {at}");
        }
    }
}

/// What a document means.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Meaning {
    Null,
    Bool(bool),
    /// Negative, digits without superfluous zeros (empty is zero), exponent of the last digit.
    Number(bool, String, i32),
    Text(String),
    Array(Vec<Meaning>),
    Object(BTreeMap<String, Meaning>),
}

fn number(negative: bool, digits: &str, exponent: i32) -> Meaning {
    let digits = digits.trim_start_matches('0');
    let trimmed = digits.trim_end_matches('0');
    if trimmed.is_empty() {
        return Meaning::Number(false, String::new(), 0);
    }
    Meaning::Number(negative, trimmed.into(), exponent + (digits.len() - trimmed.len()) as i32)
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[ab]{0,2}",
        1 => proptest::collection::vec(any::<char>(), 0..6).prop_map(String::from_iter),
        1 => "[\"\\\\/\u{8}\u{c}\n\r\t\u{0}\u{7f}é😀x]{0,200}",
    ]
}

fn meaning() -> impl Strategy<Value = Meaning> {
    let leaf = prop_oneof![
        Just(Meaning::Null),
        any::<bool>().prop_map(Meaning::Bool),
        (any::<bool>(), "[0-3]{1,2}", -2..3).prop_map(|(negative, digits, e)| number(negative, &digits, e)),
        (any::<bool>(), "[0-9]{1,40}", -40..40)
            .prop_map(|(negative, digits, e)| number(negative, &digits, e)),
        text().prop_map(Meaning::Text),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Meaning::Array),
            proptest::collection::btree_map(text(), inner, 0..6).prop_map(Meaning::Object),
        ]
    })
}

/// Chooses among spellings.
struct Dice<'a> {
    rolls: std::iter::Cycle<std::slice::Iter<'a, u8>>,
}

impl Dice<'_> {
    fn roll(&mut self, sides: usize) -> usize {
        usize::from(*self.rolls.next().unwrap()) % sides
    }
}

fn dice() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 40..120)
}

fn spell(meaning: &Meaning, rolls: &[u8]) -> String {
    let mut out = String::new();
    let mut dice = Dice { rolls: rolls.iter().cycle() };
    spell_value(meaning, &mut dice, &mut out);
    spell_space(&mut dice, &mut out);
    out
}

fn spell_space(dice: &mut Dice<'_>, out: &mut String) {
    out.push_str(["", "", "", " ", "\n\t", "\r\n  "][dice.roll(6)]);
}

fn spell_value(meaning: &Meaning, dice: &mut Dice<'_>, out: &mut String) {
    spell_space(dice, out);
    match meaning {
        Meaning::Null => out.push_str("null"),
        Meaning::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Meaning::Number(negative, digits, exponent) => spell_number(*negative, digits, *exponent, dice, out),
        Meaning::Text(text) => spell_text(text, dice, out),
        Meaning::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at == 0 { "" } else { "," });
                spell_value(item, dice, out);
                spell_space(dice, out);
            }
            spell_space(dice, out);
            out.push(']');
        }
        Meaning::Object(members) => {
            out.push('{');
            let mut left: Vec<_> = members.iter().collect();
            while !left.is_empty() {
                let (name, value) = left.swap_remove(dice.roll(left.len()));
                spell_space(dice, out);
                spell_text(name, dice, out);
                spell_space(dice, out);
                out.push(':');
                spell_value(value, dice, out);
                spell_space(dice, out);
                out.push_str(if left.is_empty() { "" } else { "," });
            }
            spell_space(dice, out);
            out.push('}');
        }
    }
}

fn spell_number(negative: bool, digits: &str, exponent: i32, dice: &mut Dice<'_>, out: &mut String) {
    let zeros = dice.roll(4);
    let digits = format!("{}{digits}{}", "0".repeat(dice.roll(3)), "0".repeat(zeros));
    let point = dice.roll(digits.len() + 1);
    let (int, frac) = digits.split_at(digits.len() - point);
    let exponent = exponent - zeros as i32 + point as i32;
    let zero = digits.bytes().all(|digit| digit == b'0');
    // Zero has no sign that counts.
    if negative || (zero && dice.roll(2) == 0) {
        out.push('-');
    }
    let int = int.trim_start_matches('0');
    out.push_str(if int.is_empty() { "0" } else { int });
    if !frac.is_empty() {
        out.push('.');
        out.push_str(frac);
    }
    if exponent != 0 || dice.roll(3) == 0 {
        out.push(if dice.roll(2) == 0 { 'e' } else { 'E' });
        out.push_str(match (exponent < 0, dice.roll(2)) {
            (true, _) => "-",
            (false, 0) => "+",
            (false, _) => "",
        });
        out.push_str(&"0".repeat(dice.roll(3)));
        out.push_str(&exponent.unsigned_abs().to_string());
    }
}

fn spell_text(text: &str, dice: &mut Dice<'_>, out: &mut String) {
    out.push('"');
    for char in text.chars() {
        let short = match char {
            '"' | '\\' | '/' => Some(char),
            '\u{8}' => Some('b'),
            '\u{c}' => Some('f'),
            '\n' => Some('n'),
            '\r' => Some('r'),
            '\t' => Some('t'),
            _ => None,
        };
        let must_escape = matches!(char, '"' | '\\' | '\0'..='\u{1f}');
        match (dice.roll(4), short) {
            (0 | 1, Some(short)) => out.extend(['\\', short]),
            (1..=3, _) if !must_escape => out.push(char),
            (roll, _) => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    let hex = if roll == 0 { format!("{unit:04x}") } else { format!("{unit:04X}") };
                    out.push_str("\\u");
                    out.push_str(&hex);
                }
            }
        }
    }
    out.push('"');
}

/// What `serde_json` makes of a document, numbers as they are spelt there left out.
#[derive(Debug, PartialEq)]
enum Oracle {
    Scalar(serde_json::Value),
    Number(f64),
    Array(Vec<Oracle>),
    Object(BTreeMap<String, Oracle>),
}

struct OracleVisitor;

impl<'de> Deserialize<'de> for Oracle {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OracleVisitor)
    }
}

impl<'de> Visitor<'de> for OracleVisitor {
    type Value = Oracle;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Oracle, E> {
        Ok(Oracle::Scalar(serde_json::Value::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Oracle, E> {
        Ok(Oracle::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Oracle, E> {
        Ok(Oracle::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Oracle, E> {
        Ok(Oracle::Number(value as f64))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Oracle, E> {
        Ok(Oracle::Number(value as f64))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Oracle, E> {
        Ok(Oracle::Number(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Oracle, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Oracle::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Oracle, A::Error> {
        let mut members = BTreeMap::new();
        while let Some((name, value)) = map.next_entry()? {
            if members.insert(name, value).is_some() {
                return Err(de::Error::custom("two members of one name"));
            }
        }
        Ok(Oracle::Object(members))
    }
}

/// Changes a document a little: a byte replaced, removed, doubled or moved in from a list of troublemakers.
fn disturb(body: &mut Vec<u8>, how: &[(usize, u8, u8)]) {
    const TROUBLE: &[u8] = b"{}[],:\"\\u0123456789dDeE+-. \tntf/a\x00\x1f\x7f\x80\xc3\xe2\xff";
    for (at, what, byte) in how {
        let at = at % body.len().max(1);
        let byte = TROUBLE.get(usize::from(*byte) % (2 * TROUBLE.len())).unwrap_or(byte);
        match what % 3 {
            0 if at < body.len() => body[at] = *byte,
            1 if at < body.len() => {
                body.remove(at);
            }
            _ => body.insert(at.min(body.len()), *byte),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn every_spelling_of_a_document_has_one_digest(meaning in meaning(), one in dice(), other in dice()) {
        let (one, other) = (spell(&meaning, &one), spell(&meaning, &other));
        prop_assert!(canonical(one.as_bytes()), "{}", one);
        prop_assert_eq!(of_json(one.as_bytes()), of_json(other.as_bytes()), "{} and {}", one, other);
    }

    #[test]
    fn documents_that_mean_something_else_have_other_digests(
        all in proptest::collection::vec(meaning(), 12),
        rolls in dice(),
    ) {
        let digests: Vec<_> = all.iter().map(|meaning| of_json(spell(meaning, &rolls).as_bytes())).collect();
        for (at, one) in all.iter().enumerate() {
            for (of, other) in all.iter().enumerate().take(at) {
                prop_assert_eq!(one == other, digests[at] == digests[of], "{:?} and {:?}", one, other);
            }
        }
    }

    #[test]
    fn what_is_not_json_to_another_reader_is_taken_as_raw_bytes(
        meaning in meaning(),
        rolls in dice(),
        how in proptest::collection::vec((any::<usize>(), any::<u8>(), any::<u8>()), 1..4),
    ) {
        let plain = spell(&meaning, &rolls).into_bytes();
        let mut body = plain.clone();
        disturb(&mut body, &how);
        match serde_json::from_slice::<Oracle>(&body) {
            Ok(value) => {
                prop_assert!(canonical(&body), "{}", String::from_utf8_lossy(&body));
                if serde_json::from_slice::<Oracle>(&plain).is_ok_and(|before| before != value) {
                    prop_assert_ne!(of_json(&body), of_json(&plain), "{}", String::from_utf8_lossy(&body));
                }
            }
            // A reader that rounds to doubles has no room for it; we do not round.
            Err(error) if error.to_string().starts_with("number out of range") => {}
            Err(error) => {
                prop_assert!(!canonical(&body), "{}: {}", error, String::from_utf8_lossy(&body));
            }
        }
    }

    #[test]
    fn arbitrary_bytes_have_a_digest(body: Vec<u8>) {
        let taken_as_raw = serde_json::from_slice::<Oracle>(&body).is_err();
        prop_assert_eq!(of_json(&body) == of_raw(&body), taken_as_raw);
    }

    #[test]
    fn bytes_that_look_like_json_have_a_digest(body in "[\\[\\]{}:,\"\\\\u0-9a-fE.+\\- ]{0,40}") {
        let outcome = serde_json::from_str::<Oracle>(&body);
        if !outcome.as_ref().is_err_and(|error| error.to_string().starts_with("number out of range")) {
            prop_assert_eq!(canonical(body.as_bytes()), outcome.is_ok(), "{}", body);
        }
    }
}

#[test]
fn every_single_byte_change_that_changes_the_meaning_changes_the_digest() {
    let body =
        br#"{"amount":500000,"tags":["a","b"],"to":{"iban":"DE00","bic":null},"live":true,"rate":-1.5e3}"#;
    let before: Oracle = serde_json::from_slice(body).unwrap();
    let digest = of_json(body);
    let mut meanings = BTreeSet::from([format!("{before:?}")]);
    for at in 0..body.len() {
        for byte in 0..=u8::MAX {
            let mut changed = body.to_vec();
            changed[at] = byte;
            let same = of_json(&changed) == digest;
            match serde_json::from_slice::<Oracle>(&changed) {
                Ok(after) => {
                    meanings.insert(format!("{after:?}"));
                    assert_eq!(same, after == before, "{}", String::from_utf8_lossy(&changed));
                }
                Err(_) => assert!(!same && !canonical(&changed), "{}", String::from_utf8_lossy(&changed)),
            }
        }
    }
    assert!(meanings.len() > 1000, "only {} other documents were tried", meanings.len());
}
