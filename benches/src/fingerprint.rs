//! What a fingerprint costs over plain SHA-256 of the same bytes.

use std::hint::black_box;

use idem::core::fingerprint::{JsonMemo, of_json, of_value};
use sha2::{Digest as _, Sha256};

use crate::payload::Charge;
use crate::rounds::{Candidate, table};

const OPERATIONS: u32 = 20_000;

fn repeated<'a, R>(name: &'static str, mut operation: impl FnMut() -> R + 'a) -> Candidate<'a> {
    Candidate::new(
        name,
        OPERATIONS,
        || (),
        move |()| {
            for _ in 0..OPERATIONS {
                black_box(operation());
            }
        },
    )
}

pub(crate) fn measure() {
    let charge = Charge::of_a_kilobyte();
    let json = charge.json();
    let memo = JsonMemo::default();
    assert_eq!(memo.of_json(&json), of_json(&json));
    table(
        &format!("fingerprint of {} bytes of JSON", json.len()),
        vec![
            repeated("plain SHA-256 of the bytes", || Sha256::digest(black_box(&json))),
            repeated("of_json: by meaning", || of_json(black_box(&json))),
            repeated("memo: equal raw bytes again", || memo.of_json(black_box(&json))),
            repeated("of_value: the same charge, typed", || {
                of_value(black_box(&charge)).expect("serialises")
            }),
            repeated("for comparison: serde_json parses it", || {
                serde_json::from_slice::<serde_json::Value>(black_box(&json)).expect("is JSON")
            }),
        ],
    );
}
