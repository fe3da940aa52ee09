//! Steps that are taken together while all connections are busy: each is answered by itself, whatever the others are.
#![cfg(feature = "postgres")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use common::process::{Process, hear_line, play, runtime, say};
use common::{DAY, HOUR, answer, claim, completed, granted, id, released};
use idem_core::answer::Answer;
use idem_core::conformance::Subject;
use idem_core::conformance_tests;
use idem_core::owner::Owner;
use idem_core::record::{Record, RecordId, State};
use idem_core::store::{
    Claim, Claimed, Fenced, Release, Retention, Settle, Settled, Store, StoreError, StoreErrorKind,
};
use idem_sqlx::PostgresStore;
use idem_testkit::{Database, PostgresServer, Proxy};
use sqlx::postgres::{PgConnection, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};
use tokio::sync::OnceCell;
use tokio::task::{JoinHandle, yield_now};

/// How many connections have last executed the statement that takes steps together, by how it begins.
const TOGETHER: &str = "SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE 'WITH patience%'";

async fn number(connection: &mut PgConnection, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(connection).await.unwrap()
}

/// A transaction that has the row of a record, and lets others wait for it.
async fn row_lock(url: &str, id: &RecordId) -> PgConnection {
    let mut connection = PgConnection::connect(url).await.unwrap();
    connection.execute("BEGIN").await.unwrap();
    let lock = "SELECT FROM idem_records WHERE id = $1 FOR UPDATE";
    let found = sqlx::query(lock).bind(&id.digest()[..]).fetch_all(&mut connection).await.unwrap();
    assert_eq!(found.len(), 1);
    connection
}

async fn until_blocked(observer: &mut PgConnection) {
    let blocked = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()";
    while number(observer, blocked).await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A store with one connection, and a step that keeps it busy until it is let go.
struct Jam {
    database: Database,
    store: PostgresStore,
    observer: PgConnection,
    lock: PgConnection,
    jammed: JoinHandle<()>,
}

impl Jam {
    async fn new() -> Self {
        Self::after(async |_, _| {}).await
    }

    /// What is done before the connection is busy.
    async fn after(prepare: impl AsyncFnOnce(&PostgresStore, &mut PgConnection)) -> Self {
        let database = PostgresServer::shared().database().await;
        let store = PostgresStore::builder().url(database.url()).connections(1).open().await.unwrap();
        let mut observer = PgConnection::connect(database.url()).await.unwrap();
        prepare(&store, &mut observer).await;
        let (busy, holder) = (id("busy"), claim("payload"));
        granted(&store, &busy, &holder).await;
        let lock = row_lock(database.url(), &busy).await;
        let jammed = tokio::spawn({
            let store = store.clone();
            async move {
                let done = store.complete(&busy, holder.owner, &answer("done"), DAY).await;
                assert_eq!(done.unwrap(), Fenced::Held);
            }
        });
        until_blocked(&mut observer).await;
        Self { database, store, observer, lock, jammed }
    }

    /// Lets those who were spawned get in line, and then the connection go. The rest is one statement.
    async fn let_go(&mut self) {
        // On a runtime of one thread each has been polled when this goes on.
        for _ in 0..3 {
            yield_now().await;
        }
        self.lock.execute("ROLLBACK").await.unwrap();
        (&mut self.jammed).await.unwrap();
    }
}

/// A claim on a task of its own.
fn call(store: &PostgresStore, key: &str) -> JoinHandle<Result<Claimed, StoreError>> {
    let (store, id, claim) = (store.clone(), id(key), claim("payload"));
    tokio::spawn(async move { store.claim(&id, &claim).await })
}

fn is_granted(result: Result<Claimed, StoreError>) -> bool {
    matches!(result.unwrap(), Claimed::Granted { attempt: 1 })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_go_together_when_all_connections_are_busy_and_never_before() {
    let database = PostgresServer::shared().database().await;
    let proxy = Proxy::before(database.url()).await;
    let store = PostgresStore::builder().url(proxy.url()).connections(4).open().await.unwrap();
    let mut observer = PgConnection::connect(database.url()).await.unwrap();
    let run = async |what: &str, callers: usize, calls: usize| {
        let before = proxy.statements();
        let callers: Vec<_> = (0..callers)
            .map(|caller| {
                let (store, what) = (store.clone(), what.to_owned());
                tokio::spawn(async move {
                    for n in 0..calls {
                        completed(&store, &id(&format!("{what}-{caller}-{n}")), DAY).await;
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        proxy.statements() - before
    };
    // As many callers as connections: each finds one idle.
    assert_eq!(run("few", 4, 50).await, 4 * 50 * 2);
    assert_eq!(number(&mut observer, TOGETHER).await, 0);
    let statements = run("many", 64, 20).await;
    println!("{} steps of 64 callers on 4 connections were {statements} statements", 64 * 20 * 2);
    assert!(statements < 64 * 20 * 2 / 4, "{statements} statements");
    let done = "SELECT count(*) FROM idem_records WHERE state = 'completed'";
    assert_eq!(number(&mut observer, done).await, 4 * 50 + 64 * 20);
}

#[tokio::test]
async fn every_kind_of_step_is_answered_by_itself() {
    let holders: Vec<Claim> = (0..6).map(|_| claim("payload")).collect();
    let keys = ["complete", "stranger", "undo", "fail", "unknown", "renew"];
    let mut jam = Jam::after(async |store, _| {
        for (key, holder) in keys.iter().zip(&holders) {
            granted(store, &id(key), holder).await;
        }
        completed(store, &id("done"), DAY).await;
        released(store, &id("failed"), Release::KeepBinding(HOUR)).await;
        completed(store, &id("gone"), Retention { ttl: Duration::ZERO, tombstone_ttl: None }).await;
    })
    .await;
    let claims = ["new", "done", "failed", "gone", "again", "again"].map(|key| call(&jam.store, key));
    let mismatch = tokio::spawn({
        let store = jam.store.clone();
        async move { store.claim(&id("done"), &claim("another payload")).await }
    });
    let ends: Vec<_> = keys
        .into_iter()
        .zip(holders.iter().map(|holder| holder.owner))
        .map(|(key, owner)| {
            let (store, id) = (jam.store.clone(), id(key));
            tokio::spawn(async move {
                match key {
                    "complete" => store.complete(&id, owner, &answer(key), DAY).await,
                    "stranger" => store.complete(&id, Owner::random(), &answer(key), DAY).await,
                    "undo" => store.release(&id, owner, Release::Undo(HOUR)).await,
                    "fail" => store.release(&id, owner, Release::KeepBinding(HOUR)).await,
                    "unknown" => store.release(&id, owner, Release::Unknown).await,
                    _ => store.renew(&id, owner, 2 * HOUR).await,
                }
            })
        })
        .collect();
    jam.let_go().await;

    let [new, done, failed, gone, again, rival] = claims;
    assert!(is_granted(new.await.unwrap()));
    let replayed = done.await.unwrap().unwrap();
    assert!(matches!(replayed, Claimed::Completed { answer: found, .. } if found == answer("done")));
    assert!(matches!(failed.await.unwrap().unwrap(), Claimed::Granted { attempt: 2 }));
    assert!(is_granted(gone.await.unwrap()));
    // Two claims of one record are not in one statement: the second finds what the first has made.
    assert!(is_granted(again.await.unwrap()));
    assert!(matches!(rival.await.unwrap().unwrap(), Claimed::InFlight { .. }));
    assert!(matches!(mismatch.await.unwrap().unwrap(), Claimed::Mismatch));

    for (key, end) in keys.iter().zip(ends) {
        let expected = if *key == "stranger" { Fenced::Lost } else { Fenced::Held };
        assert_eq!(end.await.unwrap().unwrap(), expected, "{key}");
    }
    let there = async |key| jam.store.look_up(&id(key)).await.unwrap();
    let state = async |key| there(key).await.map(|record| record.state);
    assert_eq!(there("complete").await.unwrap().answer, Some(answer("complete")));
    assert_eq!(state("stranger").await, Some(State::InFlight));
    assert_eq!(state("undo").await, None);
    assert_eq!(state("fail").await, Some(State::Failed));
    assert_eq!(state("unknown").await, Some(State::Unknown));
    assert_eq!(there("unknown").await.unwrap().expires_in, None);
    assert!(there("renew").await.unwrap().lease_left.unwrap() > HOUR);
}

/// What makes one key impossible to write: a constraint, which is a refusal, and a trigger, whose error may be anything.
const POISONS: [&str; 2] = [
    "ALTER TABLE idem_records ADD CHECK (key_hint NOT LIKE 'poison%')",
    "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'poison'; END $$;
    CREATE TRIGGER refuse BEFORE INSERT ON idem_records FOR EACH ROW WHEN (NEW.key_hint LIKE 'poison%')
        EXECUTE FUNCTION refuse()",
];

#[tokio::test]
async fn a_poisoned_step_is_an_error_for_its_own_caller_only() {
    for poison in POISONS {
        let mut jam = Jam::after(async |_, observer| {
            observer.execute(sqlx::raw_sql(poison)).await.unwrap();
        })
        .await;
        let healthy: Vec<_> = (0..40).map(|n| call(&jam.store, &format!("healthy-{n}"))).collect();
        let poisoned = call(&jam.store, "poison-poison-poison");
        let late: Vec<_> = (0..40).map(|n| call(&jam.store, &format!("late-{n}"))).collect();
        jam.let_go().await;
        let error = poisoned.await.unwrap().unwrap_err();
        let expected = [StoreErrorKind::Corrupt, StoreErrorKind::Unavailable];
        assert!(expected.contains(&error.kind()), "{error:?}");
        for call in healthy.into_iter().chain(late) {
            assert!(is_granted(call.await.unwrap()));
        }
        let written = "SELECT count(*) FROM idem_records WHERE state = 'in_flight'";
        assert_eq!(number(&mut jam.observer, written).await, 80);
    }
}

#[tokio::test]
async fn nobody_waits_long_for_a_blocked_step_of_another() {
    let holder = claim("payload");
    let mut jam = Jam::after(async |store, _| {
        granted(store, &id("blocked"), &holder).await;
    })
    .await;
    let mut lock = row_lock(jam.database.url(), &id("blocked")).await;
    let blocked = tokio::spawn({
        let store = jam.store.clone();
        async move { store.complete(&id("blocked"), holder.owner, &answer("late"), DAY).await }
    });
    let started = Instant::now();
    let others: Vec<_> = (0..40).map(|n| call(&jam.store, &format!("other-{n}"))).collect();
    jam.let_go().await;
    for other in others {
        assert!(is_granted(other.await.unwrap()));
    }
    let took = started.elapsed();
    println!("40 steps beside a blocked one took {took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    // Nor do those who come later, although there is only one connection.
    for n in 0..5 {
        let started = Instant::now();
        completed(&jam.store, &id(&format!("later-{n}")), DAY).await;
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
    }
    assert!(!blocked.is_finished());
    lock.execute("ROLLBACK").await.unwrap();
    assert_eq!(blocked.await.unwrap().unwrap(), Fenced::Held);
    let limit: String = sqlx::query_scalar("SHOW lock_timeout").fetch_one(&mut jam.observer).await.unwrap();
    assert_eq!(limit, "0");
}

#[tokio::test]
async fn a_step_that_stays_blocked_is_timed_out() {
    let holder = claim("payload");
    let database = PostgresServer::shared().database().await;
    let builder = PostgresStore::builder().url(database.url()).connections(1);
    let store = builder.timeout(Duration::from_millis(900)).open().await.unwrap();
    let mut observer = PgConnection::connect(database.url()).await.unwrap();
    for key in ["first", "second"] {
        granted(&store, &id(key), &holder).await;
    }
    let _locks =
        (row_lock(database.url(), &id("first")).await, row_lock(database.url(), &id("second")).await);
    let complete = |key: &'static str| {
        let (store, owner) = (store.clone(), holder.owner);
        tokio::spawn(async move { store.complete(&id(key), owner, &answer("late"), DAY).await })
    };
    let first = complete("first");
    until_blocked(&mut observer).await;
    let second = complete("second");
    for late in [first, second] {
        assert_eq!(late.await.unwrap().unwrap_err().kind(), StoreErrorKind::TimedOut);
    }
    // The connection whose statement is stuck is closed, and another is made.
    completed(&store, &id("third"), DAY).await;
}

#[tokio::test]
async fn a_lease_that_was_granted_together_starts_when_the_wait_was_over() {
    let holder = claim("payload");
    let mut jam = Jam::after(async |store, _| {
        granted(store, &id("blocked"), &holder).await;
    })
    .await;
    let mut lock = row_lock(jam.database.url(), &id("blocked")).await;
    let lease = Duration::from_millis(400);
    let brief = Claim { lease, ..claim("payload") };
    let granted = tokio::spawn({
        let store = jam.store.clone();
        async move { store.claim(&id("new"), &brief).await.map(|claimed| (claimed, Instant::now())) }
    });
    let blocked = tokio::spawn({
        let store = jam.store.clone();
        async move { store.complete(&id("blocked"), holder.owner, &answer("late"), DAY).await }
    });
    jam.let_go().await;
    until_blocked(&mut jam.observer).await;
    tokio::time::sleep(Duration::from_millis(120)).await;
    lock.execute("ROLLBACK").await.unwrap();
    let (claimed, at) = granted.await.unwrap().unwrap();
    assert!(matches!(claimed, Claimed::Granted { attempt: 1 }));
    assert_eq!(blocked.await.unwrap().unwrap(), Fenced::Held);
    let left = jam.store.look_up(&id("new")).await.unwrap().unwrap().lease_left.unwrap();
    assert!(left + at.elapsed() + Duration::from_millis(60) > lease, "{left:?}");
}

#[tokio::test]
async fn callers_that_go_away_harm_nobody() {
    let mut jam = Jam::new().await;
    let calls: Vec<_> = (0..100).map(|n| call(&jam.store, &format!("k{n}"))).collect();
    yield_now().await;
    for (n, call) in calls.iter().enumerate() {
        if n % 3 != 0 {
            call.abort();
        }
    }
    jam.let_go().await;
    for (n, call) in calls.into_iter().enumerate() {
        match call.await {
            Ok(claimed) => assert!(is_granted(claimed)),
            Err(error) => assert!(error.is_cancelled() && n % 3 != 0),
        }
    }
    // What nobody waited for any more was not taken.
    let written = number(&mut jam.observer, "SELECT count(*) FROM idem_records").await;
    assert!(written < 1 + 34 + 10, "{written}");
    completed(&jam.store, &id("after"), DAY).await;
}

#[tokio::test]
async fn those_who_wait_when_the_store_is_closed_are_told() {
    let mut jam = Jam::new().await;
    let calls: Vec<_> = (0..10).map(|n| call(&jam.store, &format!("k{n}"))).collect();
    yield_now().await;
    jam.store.close().await;
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap_err().kind(), StoreErrorKind::Unavailable);
    }
    jam.let_go().await;
}

#[tokio::test]
async fn a_pool_of_one_takes_steps_together_and_is_shared_with_others() {
    let database = PostgresServer::shared().database().await;
    let pool = PgPoolOptions::new().max_connections(1).connect(database.url()).await.unwrap();
    let store = PostgresStore::from_pool(&pool).await.unwrap();
    let calls: Vec<_> = (0..100)
        .map(|n| {
            let store = store.clone();
            tokio::spawn(async move { completed(&store, &id(&format!("k{n}")), DAY).await })
        })
        .collect();
    yield_now().await;
    // Its other users get their turn.
    let told: i64 = sqlx::query_scalar("SELECT 1::bigint").fetch_one(&pool).await.unwrap();
    assert_eq!(told, 1);
    for call in calls {
        call.await.unwrap();
    }
    let mut observer = PgConnection::connect(database.url()).await.unwrap();
    assert_eq!(number(&mut observer, "SELECT count(*) FROM idem_records").await, 100);
}

const ROUNDS: usize = 40;
const KEYS: usize = 96;

/// Not a test by itself: what the other processes do.
#[test]
#[ignore = "started by other tests"]
fn the_other_process() {
    if let Some((play, url)) = play() {
        runtime().block_on(race(&url, play == "descending"));
    }
}

/// Claims all keys of each round at once, in one order or the other, completes those that it is granted, and says how many
/// they were and what else there was.
async fn race(url: &str, descending: bool) {
    let store = PostgresStore::builder().url(url).connections(2).open().await.unwrap();
    say("ready");
    while let Some(round) = hear_line() {
        let mut keys: Vec<_> = (0..KEYS).map(|n| id(&format!("{round}-{n}"))).collect();
        keys.sort_by_key(|id| *id.digest());
        if descending {
            keys.reverse();
        }
        let calls: Vec<_> = keys
            .into_iter()
            .map(|id| {
                let store = store.clone();
                tokio::spawn(async move {
                    let claim = claim("payload");
                    match store.claim(&id, &claim).await {
                        Ok(Claimed::Granted { attempt: 1 }) => {}
                        Ok(Claimed::InFlight { .. } | Claimed::Completed { .. }) => return Ok(0),
                        other => return Err(format!("{other:?}")),
                    }
                    let renewed = store.renew(&id, claim.owner, HOUR).await;
                    let stored = store.complete(&id, claim.owner, &answer("done"), DAY).await;
                    match (renewed, stored) {
                        (Ok(Fenced::Held), Ok(Fenced::Held)) => Ok(1),
                        other => Err(format!("{other:?}")),
                    }
                })
            })
            .collect();
        let (mut runs, mut wrong) = (0, String::new());
        for call in calls {
            match call.await.unwrap() {
                Ok(run) => runs += run,
                Err(error) => wrong += &error,
            }
        }
        say(&format!("{runs}:{wrong}"));
    }
}

#[test]
fn processes_that_combine_the_same_keys_in_opposite_orders_run_each_once() {
    let database = runtime().block_on(PostgresServer::shared().database());
    let mut processes = ["ascending", "descending"].map(|order| Process::start(order, database.url()));
    for process in &mut processes {
        assert_eq!(process.hear(), "ready");
    }
    for round in 0..ROUNDS {
        for process in &mut processes {
            process.tell(&format!("round-{round}"));
        }
        let mut runs = 0;
        for process in &mut processes {
            let said = process.hear();
            let (granted, wrong) = said.split_once(':').unwrap();
            assert_eq!(wrong, "", "round {round}");
            runs += granted.parse::<usize>().unwrap();
        }
        assert_eq!(runs, KEYS, "round {round}");
    }
    processes.into_iter().for_each(Process::end);
    runtime().block_on(async {
        let mut observer = PgConnection::connect(database.url()).await.unwrap();
        let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
        println!("{} deadlocks were undone", number(&mut observer, deadlocks).await);
        let records = "SELECT count(*) FROM idem_records WHERE state = 'completed'";
        assert_eq!(number(&mut observer, records).await as usize, ROUNDS * KEYS);
    });
}

/// A store whose one connection others keep busy, so that nearly every step is taken together with theirs.
#[derive(Debug)]
struct Busy {
    store: PostgresStore,
    others: Vec<JoinHandle<()>>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.others.iter().for_each(JoinHandle::abort);
    }
}

#[async_trait]
impl Store for Busy {
    async fn claim(&self, id: &RecordId, claim: &Claim) -> Result<Claimed, StoreError> {
        self.store.claim(id, claim).await
    }

    async fn complete(
        &self,
        id: &RecordId,
        owner: Owner,
        answer: &Answer,
        retention: Retention,
    ) -> Result<Fenced, StoreError> {
        self.store.complete(id, owner, answer, retention).await
    }

    async fn release(&self, id: &RecordId, owner: Owner, how: Release) -> Result<Fenced, StoreError> {
        self.store.release(id, owner, how).await
    }

    async fn renew(&self, id: &RecordId, owner: Owner, lease: Duration) -> Result<Fenced, StoreError> {
        self.store.renew(id, owner, lease).await
    }

    async fn changed(&self, id: &RecordId, at_most: Duration) {
        self.store.changed(id, at_most).await;
    }

    async fn sweep(&self, limit: u32) -> Result<u64, StoreError> {
        self.store.sweep(limit).await
    }

    async fn look_up(&self, id: &RecordId) -> Result<Option<Record>, StoreError> {
        self.store.look_up(id).await
    }

    async fn settle(&self, id: &RecordId, how: &Settle) -> Result<Settled, StoreError> {
        self.store.settle(id, how).await
    }
}

struct AmongOthers {
    table: String,
    pooled: bool,
}

fn among_others(pooled: bool) -> AmongOthers {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    AmongOthers { table: format!("keys_{}", COUNT.fetch_add(1, Ordering::Relaxed)), pooled }
}

impl Subject for AmongOthers {
    type Store = Arc<Busy>;

    async fn fresh(&self) -> Arc<Busy> {
        static DATABASE: OnceCell<Database> = OnceCell::const_new();
        let url = DATABASE.get_or_init(|| PostgresServer::shared().database()).await.url();
        let builder = PostgresStore::builder().table(&self.table);
        let builder = if self.pooled {
            let pool = PgPoolOptions::new().max_connections(1).connect(url).await.expect("a pool");
            builder.pool(&pool)
        } else {
            builder.url(url).connections(1)
        };
        let store = builder.open().await.expect("a store");
        let others = (0..3)
            .map(|n| {
                let store = store.clone();
                let id = id(&format!("somebody else's {n}"));
                tokio::spawn(async move {
                    loop {
                        let _ = store.claim(&id, &claim("payload")).await;
                        yield_now().await;
                    }
                })
            })
            .collect();
        Arc::new(Busy { store, others })
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span + Duration::from_millis(5)).await;
    }
}

conformance_tests!(mod own, among_others(false));
conformance_tests!(mod pooled, among_others(true));
