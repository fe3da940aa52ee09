//! Reads the vectors, and takes digests as the documentation describes them.

use idem_core::fingerprint::Digest;
use sha2::{Digest as _, Sha256};

/// One line of a vector file.
pub(crate) struct Vector {
    pub(crate) digest: String,
    pub(crate) what: Vec<u8>,
    pub(crate) encoded: Vec<u8>,
}

pub(crate) fn read(file: &str) -> Vec<Vector> {
    let lines = file.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let vector = |line: &str| {
        let [digest, what, encoded] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("three columns in {line:?}")
        };
        Vector { digest: digest.into(), what: unescape(what), encoded: unescape(encoded) }
    };
    lines.map(vector).collect()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => {
                bytes.push(b'\\');
                rest = tail;
            }
            (b'\\', [b'x', high, low, tail @ ..]) => {
                let hex = [*high, *low];
                bytes.push(u8::from_str_radix(str::from_utf8(&hex).unwrap(), 16).unwrap());
                rest = tail;
            }
            (byte, tail) => {
                bytes.push(*byte);
                rest = tail;
            }
        }
    }
    bytes
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// SHA-256 of PREFIX(kind) and the encoded bytes.
pub(crate) fn documented(kind: u8, encoded: &[u8]) -> String {
    hex(&Sha256::new().chain_update(b"idem\x01").chain_update([kind]).chain_update(encoded).finalize())
}

pub(crate) fn hex_of(digest: Digest) -> String {
    hex(digest.as_bytes())
}
