//! What `#[idempotent]` does to async functions, on the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use idem::{ErrorKind, Idempotency, MemoryStore, idempotent};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Order {
    id: String,
    total: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Receipt {
    number: u32,
}

#[derive(Debug)]
enum Failure {
    Idem(idem::Error),
    Declined,
}

impl From<idem::Error> for Failure {
    fn from(error: idem::Error) -> Self {
        Self::Idem(error)
    }
}

impl Failure {
    #[track_caller]
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Idem(error) => error.kind(),
            Self::Declined => panic!("declined"),
        }
    }
}

/// Counts how often the work really ran.
#[derive(Debug, Clone, Default)]
struct Ledger(Arc<AtomicU32>);

impl Ledger {
    fn charge(&self) -> Receipt {
        Receipt { number: self.0.fetch_add(1, Ordering::SeqCst) + 1 }
    }

    fn charges(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

fn engine() -> Idempotency {
    Idempotency::new(MemoryStore::new())
}

fn order(id: &str) -> Order {
    Order { id: id.to_owned(), total: 100 }
}

#[idempotent(key = order.id, ttl = "24h", engine = idem, skip(ledger, idem))]
async fn charge(order: Order, ledger: Ledger, idem: Idempotency) -> Result<Receipt, Failure> {
    if order.total == 0 {
        return Err(Failure::Declined);
    }
    tokio::task::yield_now().await;
    Ok(ledger.charge())
}

#[tokio::test]
async fn a_second_call_replays_what_the_first_answered() {
    let (ledger, idem) = (Ledger::default(), engine());
    let first = charge(order("a"), ledger.clone(), idem.clone()).await.unwrap();
    let second = charge(order("a"), ledger.clone(), idem.clone()).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(ledger.charges(), 1);
    charge(order("b"), ledger.clone(), idem).await.unwrap();
    assert_eq!(ledger.charges(), 2, "another key is another call");
}

#[tokio::test]
async fn another_payload_under_the_same_key_is_a_mismatch() {
    let (ledger, idem) = (Ledger::default(), engine());
    charge(order("a"), ledger.clone(), idem.clone()).await.unwrap();
    let other = Order { total: 200, ..order("a") };
    let error = charge(other, ledger.clone(), idem).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Mismatch);
    assert_eq!(ledger.charges(), 1);
}

#[tokio::test]
async fn an_error_is_not_stored_and_leaves_the_key_bound() {
    let (ledger, idem) = (Ledger::default(), engine());
    let worthless = || Order { total: 0, ..order("a") };
    for _ in 0..2 {
        assert!(matches!(charge(worthless(), ledger.clone(), idem.clone()).await, Err(Failure::Declined)));
    }
    assert_eq!(charge(order("a"), ledger.clone(), idem).await.unwrap_err().kind(), ErrorKind::Mismatch);
    assert_eq!(ledger.charges(), 0);
}
