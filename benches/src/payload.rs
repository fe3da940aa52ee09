//! A charge of about a kilobyte, as a type and as JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Charge {
    amount: u64,
    currency: String,
    source: String,
    description: String,
    capture: bool,
    metadata: BTreeMap<String, String>,
}

impl Charge {
    /// A charge whose JSON has about 1 kB.
    pub(crate) fn of_a_kilobyte() -> Self {
        let metadata =
            (0..16).map(|i| (format!("field_{i:02}"), format!("value {i} of the metadata {i:08}")));
        Self {
            amount: 500_000,
            currency: "vnd".into(),
            source: "tok_visa".into(),
            description: "A charge for an order, described at some length by whoever made it".into(),
            capture: true,
            metadata: metadata.collect(),
        }
    }

    pub(crate) fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a charge has a JSON form")
    }
}
