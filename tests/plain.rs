//! What `#[idempotent]` does to async functions, on the memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use idem::{ErrorKind, Idempotency, MemoryStore, idempotent};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

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

#[idempotent(key = order.id, ttl = "24h", engine = idem, skip(ledger, idem), store_err)]
async fn charge_finally(order: Order, ledger: Ledger, idem: &Idempotency) -> Result<Receipt, Decline> {
    let receipt = ledger.charge();
    if order.total == 0 { Err(Decline::Of(receipt.number)) } else { Ok(receipt) }
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Decline {
    Of(u32),
    Elsewhere(String),
}

impl From<idem::Error> for Decline {
    fn from(error: idem::Error) -> Self {
        Self::Elsewhere(error.code().to_owned())
    }
}

#[tokio::test]
async fn store_err_replays_errors_too() {
    let (ledger, idem) = (Ledger::default(), engine());
    let worthless = || Order { total: 0, ..order("a") };
    for _ in 0..2 {
        let answer = charge_finally(worthless(), ledger.clone(), &idem).await;
        assert_eq!(answer, Err(Decline::Of(1)));
    }
    for _ in 0..2 {
        let answer = charge_finally(order("b"), ledger.clone(), &idem).await;
        assert_eq!(answer, Ok(Receipt { number: 2 }));
    }
    let refused = charge_finally(order("a"), ledger.clone(), &idem).await;
    assert_eq!(refused, Err(Decline::Elsewhere("idempotency_conflict".to_owned())));
}

#[idempotent(key = order.id, ttl = "24h", engine = idem, fingerprint = (order.total, "v1"))]
async fn by_total(
    order: Order,
    sent_at: u64,
    ledger: &Ledger,
    idem: &Idempotency,
) -> Result<Receipt, Failure> {
    let _ = sent_at;
    Ok(ledger.charge())
}

#[tokio::test]
async fn a_fingerprint_of_its_own_counts_what_it_names_and_nothing_else() {
    let (ledger, idem) = (Ledger::default(), engine());
    let first = by_total(order("a"), 1, &ledger, &idem).await.unwrap();
    assert_eq!(by_total(order("a"), 2, &ledger, &idem).await.unwrap(), first);
    let other = Order { total: 7, ..order("a") };
    assert_eq!(by_total(other, 1, &ledger, &idem).await.unwrap_err().kind(), ErrorKind::Mismatch);
}

#[idempotent(key = id, ttl = "24h", engine = idem, skip(ledger, idem))]
async fn wants_a_key(id: Option<u32>, ledger: &Ledger, idem: &Idempotency) -> Result<Receipt, Failure> {
    Ok(ledger.charge())
}

#[idempotent(key = id, ttl = "24h", engine = idem, skip(ledger, idem), missing = run)]
async fn runs_without_a_key(
    id: Option<u32>,
    ledger: &Ledger,
    idem: &Idempotency,
) -> Result<Receipt, Failure> {
    Ok(ledger.charge())
}

#[idempotent(key = id, ttl = "24h", engine = idem, skip(ledger, idem), missing = derive)]
async fn derives_a_key(
    id: Option<u32>,
    n: u8,
    ledger: &Ledger,
    idem: &Idempotency,
) -> Result<Receipt, Failure> {
    let _ = n;
    Ok(ledger.charge())
}

#[tokio::test]
async fn without_a_key_nothing_runs_unless_the_function_says_so() {
    let (ledger, idem) = (Ledger::default(), engine());
    assert_eq!(wants_a_key(None, &ledger, &idem).await.unwrap_err().kind(), ErrorKind::KeyRequired);
    assert_eq!(ledger.charges(), 0);
    for ran in 1..=2 {
        runs_without_a_key(None, &ledger, &idem).await.unwrap();
        assert_eq!(ledger.charges(), ran, "no record protects it");
    }
    for (n, ran) in [(1, 3), (1, 3), (2, 4), (1, 4)] {
        derives_a_key(None, n, &ledger, &idem).await.unwrap();
        assert_eq!(ledger.charges(), ran, "the fingerprint is the key");
    }
}

#[idempotent(key = id, ttl = "24h", engine = idem, skip(fail, idem))]
async fn tells_of_its_run(id: u32, fail: bool, idem: &Idempotency) -> Result<(u32, String), Failure> {
    let run = idem::current().ok_or(Failure::Declined)?;
    if fail { Err(Failure::Declined) } else { Ok((run.attempt(), run.derive("stripe"))) }
}

#[tokio::test]
async fn the_work_knows_its_attempt_and_derives_keys() {
    let idem = engine();
    assert!(tells_of_its_run(1, true, &idem).await.is_err());
    let (attempt, key) = tells_of_its_run(1, false, &idem).await.unwrap();
    assert_eq!(attempt, 2);
    let (other_attempt, other_key) = tells_of_its_run(2, false, &idem).await.unwrap();
    assert_eq!(other_attempt, 1);
    assert_ne!(key, other_key);
    assert!(idem::current().is_none(), "outside of a run there is none");
}

struct Account {
    name: &'static str,
    idem: Idempotency,
    ledger: Ledger,
}

impl Account {
    #[idempotent(key = id, ttl = "24h", scope = self.name, operation = "accounts.charge", engine = self.idem)]
    async fn charge(&self, id: u32) -> Result<Receipt, Failure> {
        let _ = id;
        Ok(self.ledger.charge())
    }

    #[idempotent(key = id, ttl = "24h", scope = self.name, operation = "accounts.refund", engine = self.idem)]
    async fn refund(&self, id: u32) -> Result<Receipt, Failure> {
        let _ = id;
        Ok(self.ledger.charge())
    }
}

#[tokio::test]
async fn two_scopes_and_two_operations_never_meet() {
    let (ledger, idem) = (Ledger::default(), engine());
    let account = |name| Account { name, idem: idem.clone(), ledger: ledger.clone() };
    let numbers = [
        account("a").charge(1).await.unwrap().number,
        account("b").charge(1).await.unwrap().number,
        account("a").refund(1).await.unwrap().number,
        account("a").charge(1).await.unwrap().number,
    ];
    assert_eq!(numbers, [1, 2, 3, 1]);
}

#[idempotent(key = id, ttl = "24h", operation = "generic", engine = idem, skip(value, ledger, idem))]
async fn generic<T, E>(id: u32, value: T, ledger: &Ledger, idem: &Idempotency) -> Result<T, E>
where
    T: Serialize + serde::de::DeserializeOwned,
    E: From<idem::Error>,
{
    ledger.charge();
    Ok(value)
}

#[tokio::test]
async fn empty_answers_are_answers() {
    let (ledger, idem) = (Ledger::default(), engine());
    for _ in 0..2 {
        generic::<(), idem::Error>(1, (), &ledger, &idem).await.unwrap();
        assert_eq!(generic::<Option<u8>, idem::Error>(2, None, &ledger, &idem).await.unwrap(), None);
        assert_eq!(
            generic::<Vec<u8>, idem::Error>(3, vec![], &ledger, &idem).await.unwrap(),
            Vec::<u8>::new()
        );
        assert_eq!(generic::<String, idem::Error>(4, String::new(), &ledger, &idem).await.unwrap(), "");
    }
    assert_eq!(ledger.charges(), 4);
}

#[idempotent(key = order.id, ttl = "24h", engine = idem, skip(ledger, idem))]
async fn changes_its_argument(
    mut order: Order,
    ledger: &Ledger,
    idem: &Idempotency,
) -> Result<Order, Failure> {
    ledger.charge();
    order.id.push_str("-changed");
    order.total += 1;
    Ok(order)
}

#[tokio::test]
async fn an_argument_that_the_work_changes_is_identified_as_it_came() {
    let (ledger, idem) = (Ledger::default(), engine());
    let first = changes_its_argument(order("a"), &ledger, &idem).await.unwrap();
    assert_eq!(changes_its_argument(order("a"), &ledger, &idem).await.unwrap(), first);
    assert_eq!((first.id.as_str(), first.total, ledger.charges()), ("a-changed", 101, 1));
}

/// Lets a test see into work that is under way.
#[derive(Clone, Default)]
struct Gate {
    begun: Arc<Notify>,
    open: Arc<Notify>,
    ended: Arc<Notify>,
}

/// Says when it is dropped.
struct Guard(Arc<AtomicBool>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Gate {
    async fn pass(&self) {
        self.begun.notify_one();
        self.open.notified().await;
        self.ended.notify_one();
    }
}

#[idempotent(key = id, ttl = "24h", engine = idem, skip(gate, ledger, idem, _guard))]
async fn slow(
    id: u32,
    gate: Gate,
    ledger: Ledger,
    idem: Idempotency,
    _guard: Guard,
) -> Result<Receipt, Failure> {
    gate.pass().await;
    Ok(ledger.charge())
}

#[idempotent(key = id, ttl = "24h", engine = idem, skip(gate, ledger, idem), on_disconnect = cancel)]
async fn cancelled(id: u32, gate: Gate, ledger: Ledger, idem: Idempotency) -> Result<Receipt, Failure> {
    gate.pass().await;
    Ok(ledger.charge())
}

#[idempotent(key = id, ttl = "24h", engine = idem, skip(gate, ledger, idem), in_flight = wait("1m"))]
async fn patient(id: u32, gate: Gate, ledger: Ledger, idem: Idempotency) -> Result<Receipt, Failure> {
    gate.pass().await;
    Ok(ledger.charge())
}

#[idempotent(key = id, ttl = "24h", engine = idem, skip(gate, ledger, idem))]
async fn borrowing(id: u32, gate: &Gate, ledger: &Ledger, idem: &Idempotency) -> Result<Receipt, Failure> {
    gate.pass().await;
    Ok(ledger.charge())
}

#[tokio::test]
async fn work_goes_on_when_its_caller_goes_away_and_keeps_its_arguments() {
    let (gate, ledger, idem, dropped) = (Gate::default(), Ledger::default(), engine(), Arc::default());
    let caller =
        tokio::spawn(slow(1, gate.clone(), ledger.clone(), idem.clone(), Guard(Arc::clone(&dropped))));
    gate.begun.notified().await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    assert!(
        !dropped.load(Ordering::SeqCst),
        "an argument that the body does not look at lives as long as the body"
    );
    let guard = || Guard(Arc::default());
    let meanwhile = slow(1, gate.clone(), ledger.clone(), idem.clone(), guard()).await.unwrap_err();
    assert_eq!(meanwhile.kind(), ErrorKind::InFlight);
    gate.open.notify_one();
    gate.ended.notified().await;
    let replayed =
        until_settled(|| slow(1, gate.clone(), ledger.clone(), idem.clone(), guard())).await.unwrap();
    assert_eq!((replayed.number, ledger.charges()), (1, 1));
    assert!(dropped.load(Ordering::SeqCst));
}

/// Calls again while what the first call left is on its way to the store.
async fn until_settled<T, F>(mut call: impl FnMut() -> F) -> Result<T, Failure>
where
    F: Future<Output = Result<T, Failure>>,
{
    loop {
        match call().await {
            Err(Failure::Idem(error)) if error.kind() == ErrorKind::InFlight => {
                tokio::task::yield_now().await;
            }
            other => return other,
        }
    }
}

#[tokio::test]
async fn on_disconnect_cancel_frees_the_key_at_once() {
    let (gate, ledger, idem) = (Gate::default(), Ledger::default(), engine());
    let caller = tokio::spawn(cancelled(1, gate.clone(), ledger.clone(), idem.clone()));
    gate.begun.notified().await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    gate.open.notify_one();
    let second = until_settled(|| cancelled(1, gate.clone(), ledger.clone(), idem.clone())).await.unwrap();
    assert_eq!((second.number, ledger.charges()), (1, 1));
}

#[tokio::test]
async fn work_that_borrows_ends_with_its_caller_and_counts_as_crashed() {
    let (gate, ledger, idem) = (Gate::default(), Ledger::default(), engine());
    {
        let mut call = Box::pin(borrowing(1, &gate, &ledger, &idem));
        tokio::select! {
            _ = &mut call => unreachable!("the gate is shut"),
            () = gate.begun.notified() => {}
        }
    }
    let next = borrowing(1, &gate, &ledger, &idem).await.unwrap_err();
    assert_eq!(next.kind(), ErrorKind::InFlight, "until the lease ends");
    assert_eq!(ledger.charges(), 0);
}

#[tokio::test]
async fn a_caller_that_waits_gets_the_answer_of_the_first() {
    let (gate, ledger, idem) = (Gate::default(), Ledger::default(), engine());
    let first = tokio::spawn(patient(1, gate.clone(), ledger.clone(), idem.clone()));
    gate.begun.notified().await;
    let second = tokio::spawn(patient(1, gate.clone(), ledger.clone(), idem.clone()));
    gate.open.notify_one();
    assert_eq!(first.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert_eq!(ledger.charges(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_calls_at_once_run_once() {
    let (ledger, idem) = (Ledger::default(), engine());
    let calls: Vec<_> =
        (0..100).map(|_| tokio::spawn(charge(order("a"), ledger.clone(), idem.clone()))).collect();
    for call in calls {
        match call.await.unwrap() {
            Ok(receipt) => assert_eq!(receipt.number, 1),
            Err(failure) => assert_eq!(failure.kind(), ErrorKind::InFlight),
        }
    }
    assert_eq!(ledger.charges(), 1);
}

mod twins {
    use super::{Failure, Idempotency, idempotent};

    pub(super) async fn one(idem: &Idempotency) -> Result<u32, Failure> {
        #[idempotent(key = 1, ttl = "24h", engine = idem, skip(idem))]
        async fn twin(idem: &Idempotency) -> Result<u32, Failure> {
            Ok(1)
        }
        twin(idem).await
    }

    pub(super) async fn two(idem: &Idempotency) -> Result<u32, Failure> {
        #[idempotent(key = 1, ttl = "24h", engine = idem, skip(idem))]
        async fn twin(idem: &Idempotency) -> Result<u32, Failure> {
            Ok(2)
        }
        twin(idem).await
    }
}

#[tokio::test]
async fn two_functions_of_one_path_are_told_apart_by_an_error() {
    let idem = engine();
    assert_eq!(twins::one(&idem).await.unwrap(), 1);
    assert_eq!(twins::two(&idem).await.unwrap_err().kind(), ErrorKind::Misuse);
    assert_eq!(twins::one(&idem).await.unwrap(), 1, "the first stays");
}

#[idempotent(key = id, ttl = "24h")]
async fn without_an_engine(id: u32) -> Result<u32, Failure> {
    Ok(id)
}

#[tokio::test]
async fn without_an_engine_of_the_process_a_function_says_so() {
    assert_eq!(without_an_engine(1).await.unwrap_err().kind(), ErrorKind::Misuse);
}

#[idempotent(key = id, ttl = ttl, engine = idem, fingerprint = id)]
async fn for_a_while(id: u32, ttl: Duration, idem: &Idempotency) -> Result<u32, Failure> {
    Ok(id)
}

#[tokio::test]
async fn a_time_that_is_computed_is_checked_when_the_call_runs() {
    let idem = engine();
    assert_eq!(for_a_while(1, Duration::ZERO, &idem).await.unwrap_err().kind(), ErrorKind::Misuse);
    assert_eq!(for_a_while(1, Duration::from_mins(1), &idem).await.unwrap(), 1);
}

#[idempotent(key = id, ttl = "24h", engine = idem, skip(idem))]
async fn panics(id: u32, mood: &Mood, idem: &Idempotency) -> Result<u32, Failure> {
    assert!(mood.calm, "as asked");
    Ok(id)
}

#[derive(Serialize)]
struct Mood {
    #[serde(skip)]
    calm: bool,
}

#[tokio::test]
async fn a_panic_reaches_the_caller_and_frees_the_key() {
    let idem = engine();
    let panicking = {
        let idem = idem.clone();
        tokio::spawn(async move { panics(1, &Mood { calm: false }, &idem).await.map_err(|_| ()) })
    };
    assert!(panicking.await.unwrap_err().is_panic());
    let retried = until_settled(|| panics(1, &Mood { calm: true }, &idem)).await;
    assert_eq!(retried.unwrap(), 1);
}

#[tokio::test]
async fn the_future_of_an_annotated_function_is_send() {
    fn assert_send<T: Send>(future: T) -> T {
        future
    }
    let (ledger, idem) = (Ledger::default(), engine());
    assert_send(charge(order("a"), ledger.clone(), idem.clone())).await.unwrap();
    assert_send(wants_a_key(Some(1), &ledger, &idem)).await.unwrap();
    assert_eq!(ledger.charges(), 2);
}
