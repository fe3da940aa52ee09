//! Commits whose reply is lost, sessions that are ended and servers that are killed: what is in the ledger and what a retry
//! gets.

use idem_testkit::Proxy;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use super::wire::Wire;
use super::*;

/// Has whoever commits to the ledger wait until the gate is open, and refuses it if there is a refusal by then.
const GATE: &str = "CREATE TABLE refusals (n INTEGER);
    CREATE FUNCTION pass_gate() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_advisory_xact_lock(42);
        IF EXISTS (SELECT FROM refusals) THEN RAISE EXCEPTION 'refused'; END IF;
        RETURN NULL;
    END $$;
    CREATE CONSTRAINT TRIGGER gate AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION pass_gate()";

/// A session of the test's own, which can keep the gate closed.
struct Keeper(PgConnection);

impl Keeper {
    async fn at(place: &Place) -> Self {
        let mut keeper = Self(PgConnection::connect(place.place()).await.unwrap());
        keeper.execute(GATE).await;
        keeper
    }

    async fn execute(&mut self, sql: &str) {
        self.0.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.unwrap();
    }

    async fn close_gate(&mut self) {
        self.execute("SELECT pg_advisory_lock(42)").await;
    }

    async fn open_gate(&mut self) {
        self.execute("SELECT pg_advisory_unlock(42)").await;
    }

    async fn number(&mut self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.0).await.unwrap()
    }

    /// Waits until a commit stands before the gate.
    async fn until_at_gate(&mut self) {
        let waiting =
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 42 AND NOT granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())";
        while self.number(waiting).await == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Ends the sessions of all stores, and waits for their end.
    async fn end_sessions(&mut self) {
        let end = "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'idem'";
        assert!(self.number(end).await > 0);
    }
}

async fn retried(idem: &Transactional<Store>) -> (&'static str, String) {
    let retry = call(idem, "k", "payload").in_flight(InFlight::Wait(SOON * 3));
    match retry.transact(pay).await.unwrap() {
        Outcome::Replayed(Ok(text)) => ("replayed", text),
        Outcome::Fresh(Ok(text)) => ("ran", text),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_commit_whose_reply_is_lost_is_looked_up() {
    for refuses in [false, true] {
        let place = Place::new().await;
        let mut keeper = Keeper::at(&place).await;
        let proxy = Proxy::before(place.place()).await;
        let idem = Transactional::new(Place::store_at(proxy.url()).await);
        keeper.close_gate().await;
        let caller = tokio::spawn(call(&idem, "k", "payload").transact(pay));
        keeper.until_at_gate().await;
        if refuses {
            keeper.execute("INSERT INTO refusals VALUES (1)").await;
        }
        proxy.lose_next_answer();
        keeper.open_gate().await;
        let ended = caller.await.unwrap();
        keeper.execute("DELETE FROM refusals").await;
        if refuses {
            assert_eq!(refused(ended), ErrorKind::CommitRefused);
            assert!(place.entries().await.is_empty());
            assert_eq!(retried(&idem).await, ("ran", "attempt 1".to_owned()));
        } else {
            assert_eq!(fresh(ended).unwrap(), "attempt 1");
            assert_eq!(retried(&idem).await, ("replayed", "attempt 1".to_owned()));
        }
        assert_eq!(place.entries().await, ["paid"]);
    }
}

#[tokio::test]
async fn a_commit_whose_answer_is_gone_before_it_is_looked_up_is_not_called_refused() {
    let place = Place::new().await;
    let mut keeper = Keeper::at(&place).await;
    let proxy = Proxy::before(place.place()).await;
    let idem = Transactional::new(Place::store_at(proxy.url()).await);
    keeper.close_gate().await;
    let brief = call(&idem, "k", "payload").ttl(Duration::from_millis(1));
    let caller = tokio::spawn(brief.transact(pay));
    keeper.until_at_gate().await;
    proxy.lose_next_answer();
    keeper.open_gate().await;
    assert_eq!(refused(caller.await.unwrap()), ErrorKind::StoreUnavailable);
    assert_eq!(place.entries().await, ["paid"]);
}

#[tokio::test]
async fn a_commit_that_goes_on_while_its_connection_is_gone_is_waited_for() {
    for refuses in [false, true] {
        let place = Place::new().await;
        let mut keeper = Keeper::at(&place).await;
        let wire = Wire::to(place.place()).await;
        let idem = Transactional::new(Place::store_at(wire.url()).await);
        keeper.close_gate().await;
        let mut caller = tokio::spawn(call(&idem, "k", "payload").transact(pay));
        keeper.until_at_gate().await;
        wire.cut();
        // Whoever said something by now would not know it.
        let early = tokio::time::timeout(Duration::from_millis(300), &mut caller).await;
        assert!(early.is_err(), "{early:?}");
        if refuses {
            keeper.execute("INSERT INTO refusals VALUES (1)").await;
        }
        keeper.open_gate().await;
        let ended = caller.await.unwrap();
        if refuses {
            assert_eq!(refused(ended), ErrorKind::CommitRefused);
            assert!(place.entries().await.is_empty());
        } else {
            assert_eq!(fresh(ended).unwrap(), "attempt 1");
            assert_eq!(place.entries().await, ["paid"]);
        }
    }
}

#[tokio::test]
async fn a_commit_that_takes_longer_than_anybody_waits_is_not_called_refused() {
    let place = Place::new().await;
    let mut keeper = Keeper::at(&place).await;
    // What the session says of locks is left alone, so the commit waits on.
    let url = format!("{}?options[lock_timeout]=60s", place.place());
    let store = PostgresStore::builder().url(&url).timeout(Duration::from_millis(200)).open().await.unwrap();
    let idem = Transactional::new(store);
    keeper.close_gate().await;
    let ended = call(&idem, "k", "payload").transact(pay).await;
    assert_eq!(refused(ended), ErrorKind::StoreUnavailable);
    let other = place.engine().await;
    assert_eq!(refused(call(&other, "k", "payload").transact(pay).await), ErrorKind::InFlight);
    keeper.open_gate().await;
    assert_eq!(retried(&other).await, ("replayed", "attempt 1".to_owned()));
    assert_eq!(place.entries().await, ["paid"]);
}

#[tokio::test]
async fn a_transaction_is_begun_though_all_connections_of_the_pool_are_broken() {
    const CONNECTIONS: u32 = 40;
    let place = Place::new().await;
    let mut keeper = Keeper::at(&place).await;
    let pool = PoolOptions::new().max_connections(CONNECTIONS).test_before_acquire(false);
    let pool = pool.connect(&format!("{}?application_name=idem", place.place())).await.unwrap();
    let idem = Transactional::new(PostgresStore::from_pool(&pool).await.unwrap());
    drop(futures_util::future::join_all((0..CONNECTIONS).map(|_| pool.acquire())).await);
    while pool.num_idle() < CONNECTIONS as usize {
        tokio::task::yield_now().await;
    }
    keeper.end_sessions().await;
    assert_eq!(fresh(call(&idem, "k", "payload").transact(pay).await).unwrap(), "attempt 1");
}

/// What befalls a call.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Blow {
    /// Its session is ended.
    Session,
    /// Its server is killed and started again.
    Server,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum When {
    BeforeTheClaim,
    InTheBody,
    BeforeTheCommit,
    InTheCommit,
    AfterTheCommit,
}

/// Calls once and strikes then; tells what the caller got.
async fn struck(
    idem: &Transactional<Store>,
    when: When,
    keeper: &mut Keeper,
    strike: impl AsyncFnOnce(&mut Keeper),
) -> String {
    let told = |ended: Ended| match ended {
        Ok(Outcome::Fresh(Ok(_))) => "its answer".to_owned(),
        Ok(Outcome::Fresh(Err(_))) => "its error".to_owned(),
        Err(error) => format!("{:?}", error.kind()),
        other => panic!("{other:?}"),
    };
    if when == When::BeforeTheClaim {
        strike(keeper).await;
        return told(call(idem, "k", "payload").transact(pay).await);
    }
    if when == When::InTheCommit {
        keeper.close_gate().await;
    }
    let (begun, has_begun) = oneshot::channel();
    let (go_on, goes_on) = oneshot::channel::<()>();
    let caller = tokio::spawn(call(idem, "k", "payload").transact(move |mut tx, run| async move {
        write(&mut tx, "paid").await?;
        begun.send(()).unwrap();
        goes_on.await.unwrap();
        if when == When::InTheBody {
            write(&mut tx, "paid twice").await?;
        }
        Ok(format!("attempt {}", run.attempt()))
    }));
    has_begun.await.unwrap();
    match when {
        When::InTheCommit => {
            go_on.send(()).unwrap();
            keeper.until_at_gate().await;
            strike(keeper).await;
            told(caller.await.unwrap())
        }
        When::AfterTheCommit => {
            go_on.send(()).unwrap();
            let ended = told(caller.await.unwrap());
            strike(keeper).await;
            ended
        }
        _ => {
            strike(keeper).await;
            go_on.send(()).unwrap();
            told(caller.await.unwrap())
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_ends_a_session_or_a_server_and_when_there_is_one_effect() {
    // The machine goes on, so what was written is there; to sync it takes most of a restart.
    let mut server = PostgresServer::start(&["fsync=off"]);
    for blow in [Blow::Session, Blow::Server] {
        for when in [
            When::BeforeTheClaim,
            When::InTheBody,
            When::BeforeTheCommit,
            When::InTheCommit,
            When::AfterTheCommit,
        ] {
            let place = Place::on(server.database().await).await;
            let mut keeper = Keeper::at(&place).await;
            let idem = place.engine().await;
            let got = struck(&idem, when, &mut keeper, async |keeper: &mut Keeper| match blow {
                Blow::Session => keeper.end_sessions().await,
                Blow::Server => {
                    server.kill();
                    server.restart();
                    *keeper = Keeper(PgConnection::connect(place.place()).await.unwrap());
                }
            })
            .await;
            let keeps_gate = when == When::InTheCommit && blow == Blow::Session;
            let pool = Place::pool_at(place.place()).await;
            let ledger: i64 =
                sqlx::query_scalar("SELECT count(*) FROM ledger").fetch_one(&pool).await.unwrap();
            if keeps_gate {
                keeper.open_gate().await;
            }
            let (retry, text) = retried(&idem).await;
            println!("{blow:?} | {when:?} | caller: {got} | ledger: {ledger} | retry: {retry}, {text}");
            let is_done = matches!(when, When::BeforeTheClaim | When::AfterTheCommit);
            assert_eq!(ledger, i64::from(is_done), "{blow:?} {when:?}");
            assert_eq!(retry, if is_done { "replayed" } else { "ran" }, "{blow:?} {when:?}");
            assert_eq!(text, "attempt 1");
            let expected: &[&str] = match when {
                When::BeforeTheClaim | When::AfterTheCommit => &["its answer"],
                When::InTheBody => &["its error"],
                When::BeforeTheCommit => &["CommitRefused"],
                // The server may be away longer than anybody waits for it.
                When::InTheCommit => &["CommitRefused", "StoreUnavailable"],
            };
            assert!(expected.contains(&&*got), "{blow:?} {when:?}: {got}");
            let ledger: i64 =
                sqlx::query_scalar("SELECT count(*) FROM ledger").fetch_one(&pool).await.unwrap();
            assert_eq!(ledger, 1);
        }
    }
}
