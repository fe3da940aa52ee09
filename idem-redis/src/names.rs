//! Names: the keys of records and answers, and the channel of those who wait.

use idem_core::record::RecordId;

use crate::layout::Apart;

/// What all keys of a store begin with.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    prefix: String,
    channel: String,
}

const HEX: &[u8; 16] = b"0123456789abcdef";

impl Names {
    /// The longest prefix, in bytes.
    pub(crate) const MAX_PREFIX: usize = 100;

    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.to_owned(), channel: format!("{prefix}changed") }
    }

    /// Why it cannot be a prefix.
    pub(crate) fn refuses(prefix: &str) -> Option<&'static str> {
        if prefix.len() > Self::MAX_PREFIX {
            Some("the prefix is longer than 100 bytes")
        } else if prefix.contains(['{', '}']) {
            Some(
                "the prefix has a brace: those mark which part of a key decides its slot, and all records would be in one",
            )
        } else if prefix.chars().any(char::is_control) {
            Some("the prefix has a control character")
        } else {
            None
        }
    }

    /// The key of a record: the prefix, and the record's digest in hexadecimal digits, between braces.
    ///
    /// What is between braces decides the slot in a cluster, so that an answer is where its record is.
    pub(crate) fn record(&self, id: &RecordId) -> Vec<u8> {
        self.key(id, 0)
    }

    /// The key of an answer that is kept apart.
    pub(crate) fn answer(&self, id: &RecordId, apart: Apart) -> Vec<u8> {
        let mut key = self.key(id, 33);
        key.push(b':');
        push_hex(&mut key, apart.as_bytes());
        key
    }

    fn key(&self, id: &RecordId, more: usize) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.prefix.len() + 66 + more);
        key.extend_from_slice(self.prefix.as_bytes());
        key.push(b'{');
        push_hex(&mut key, id.digest());
        key.push(b'}');
        key
    }

    /// Where changes of awaited records are told, by their keys.
    pub(crate) fn channel(&self) -> &str {
        &self.channel
    }

    /// How many bytes stand before and after the digest in a record's key.
    pub(crate) fn around(&self) -> (usize, usize) {
        (self.prefix.len() + 1, 1)
    }
}

fn push_hex(key: &mut Vec<u8>, bytes: &[u8]) {
    key.extend(bytes.iter().flat_map(|byte| [byte >> 4, byte & 0xf]).map(|nibble| HEX[usize::from(nibble)]));
}

#[cfg(test)]
mod tests {
    use idem_core::key::{Key, Scope};

    use super::*;

    #[test]
    fn keys_are_fixed_for_ever() {
        let id = RecordId::new(
            &Scope::new("alice").expect("a scope"),
            &"payments.create".into(),
            &Key::new("order-1").expect("a key"),
        );
        let names = Names::new("idem:");
        let record = String::from_utf8(names.record(&id)).expect("text");
        assert_eq!(record, "idem:{3489b8204e734493dcd171c4c6ee510e93c87fb62eafa70ad8fb3832913daf46}");
        let (before, after) = names.around();
        assert_eq!(record[before..record.len() - after].len(), 64);
        let answer = String::from_utf8(names.answer(&id, Apart::random())).expect("text");
        assert_eq!(answer.len(), record.len() + 33);
        assert!(answer.starts_with(&record));
    }

    #[test]
    fn a_prefix_that_would_put_all_records_in_one_slot_is_refused() {
        for prefix in ["{idem}", "a}", "a\n", &"x".repeat(101)] {
            assert!(Names::refuses(prefix).is_some(), "{prefix:?}");
        }
        for prefix in ["", "idem:", "payments/üb:"] {
            assert_eq!(Names::refuses(prefix), None);
        }
    }
}
