//! Steps that somebody takes who is told them as words, in this process or another.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use idem_core::owner::Owner;
use idem_core::store::{Claim, Claimed, Retention, Store};

use super::claims::{answer, claim, id};

/// How much more time than it should a short span may take on a machine that does a lot else.
const PATIENCE: Duration = Duration::from_secs(10);

/// Somebody who takes a step that he is told, and says what came of it.
pub type Caller<'a> = &'a mut dyn FnMut(&str) -> String;

/// Takes steps under the owners of its own claims.
#[derive(Debug)]
pub struct Steps<S> {
    store: S,
    owners: HashMap<String, Owner>,
}

impl<S: Store> Steps<S> {
    /// Will take them in a store.
    pub fn new(store: S) -> Self {
        Self { store, owners: HashMap::new() }
    }

    /// Takes `claim KEY LEASE`, `renew KEY LEASE`, `complete KEY TTL` or `sweep`; spans are milliseconds.
    ///
    /// # Panics
    ///
    /// When the store cannot say.
    pub async fn take(&mut self, line: &str) -> String {
        let words: Vec<_> = line.split(' ').collect();
        let (key, span) = (
            *words.get(1).unwrap_or(&""),
            words.get(2).map_or(0, |span| span.parse().expect("milliseconds")),
        );
        let span = Duration::from_millis(span);
        let owner = self.owners.get(key).copied().unwrap_or_else(Owner::random);
        match words[0] {
            "claim" => {
                let claim = Claim { lease: span, ..claim("payload") };
                let claimed = self.store.claim(&id(key), &claim).await.expect("an answer");
                if matches!(claimed, Claimed::Granted { .. }) {
                    self.owners.insert(key.to_owned(), claim.owner);
                }
                match claimed {
                    Claimed::Granted { attempt } => format!("granted {attempt}"),
                    Claimed::InFlight { lease_left } => format!("in flight {}", lease_left.as_millis()),
                    Claimed::Completed { .. } => "completed".to_owned(),
                    other => format!("{other:?}"),
                }
            }
            "renew" => format!("{:?}", self.store.renew(&id(key), owner, span).await.expect("an answer")),
            "complete" => {
                let retention = Retention { ttl: span, tombstone_ttl: None };
                let fenced = self.store.complete(&id(key), owner, &answer("done"), retention).await;
                format!("{:?}", fenced.expect("an answer"))
            }
            "sweep" => self.store.sweep(1_000).await.expect("an answer").to_string(),
            other => panic!("no such step: {other}"),
        }
    }
}

/// The milliseconds of a lease that somebody else holds.
fn left(said: &str) -> u64 {
    let (_, left) = said.split_once("in flight ").unwrap_or_else(|| panic!("expected a conflict: {said}"));
    left.parse().expect("milliseconds")
}

/// Claims until a span is over, and sees that it was not over early, nor much too late.
fn claims_when_over(caller: Caller<'_>, key: &str, span: Duration, since: Instant, granted: &str) {
    loop {
        let said = caller(&format!("claim {key} 30000"));
        if said == granted {
            break;
        }
        assert!(said == "completed" || left(&said) <= span.as_millis() as u64 + 1, "{said}");
        assert!(since.elapsed() < span + PATIENCE, "{said}");
    }
    assert!(since.elapsed() >= span, "{:?}", since.elapsed());
}

/// Sees to leases, take-over, expiry and sweeping between two callers, of whom a sweep deletes so many records that are
/// gone.
///
/// # Panics
///
/// When the store decides anything else than it should.
pub fn decide_as_ever(name: &str, swept: u64, one: Caller<'_>, other: Caller<'_>) {
    let key = |what: &str| format!("{what}-{name}");
    let (busy, lapsed, gone) = (key("busy"), key("lapsed"), key("gone"));
    assert_eq!(one(&format!("claim {busy} 30000")), "granted 1");
    let lease = left(&other(&format!("claim {busy} 30000")));
    assert!((15_000..=30_000).contains(&lease), "{lease}");
    assert_eq!(one(&format!("renew {busy} 3600000")), "Held");
    let lease = left(&other(&format!("claim {busy} 30000")));
    assert!((3_500_000..=3_600_000).contains(&lease), "{lease}");
    assert_eq!(one(&format!("complete {busy} 86400000")), "Held");
    assert_eq!(other(&format!("claim {busy} 30000")), "completed");

    assert_eq!(one(&format!("claim {lapsed} 0")), "granted 1");
    assert_eq!(other(&format!("claim {lapsed} 30000")), "granted 2");
    assert_eq!(one(&format!("complete {lapsed} 86400000")), "Lost");
    assert_eq!(other(&format!("complete {lapsed} 86400000")), "Held");
    assert_eq!(one(&format!("claim {lapsed} 30000")), "completed");

    let short = Duration::from_millis(400);
    for (what, ends, again) in [("lease", None, "granted 2"), ("answer", Some(short), "granted 1")] {
        let (key, since) = (key(what), Instant::now());
        let lease = if ends.is_some() { 30_000 } else { 400 };
        assert_eq!(one(&format!("claim {key} {lease}")), "granted 1");
        if ends.is_some() {
            assert_eq!(one(&format!("complete {key} 400")), "Held");
        }
        claims_when_over(other, &key, short, since, again);
    }

    assert_eq!(one(&format!("claim {gone} 30000")), "granted 1");
    assert_eq!(one(&format!("complete {gone} 0")), "Held");
    assert_eq!(other("sweep"), swept.to_string());
    assert_eq!(one("sweep"), "0");
    assert_eq!(other(&format!("claim {gone} 30000")), "granted 1");
    for key in [busy, lapsed] {
        assert_eq!(one(&format!("claim {key} 30000")), "completed");
    }
}
