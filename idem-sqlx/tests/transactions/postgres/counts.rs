//! What transaction mode costs, counted: statements, trips, commits and bytes of log.

use std::collections::BTreeMap;

use idem_testkit::Proxy;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use super::*;

/// A session that sees what others cost.
struct Observer(PgConnection);

impl Observer {
    async fn scalar<T>(&mut self, sql: &str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut self.0).await.unwrap()
    }

    /// The end of the log.
    async fn log(&mut self) -> i64 {
        self.scalar("SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").await
    }

    async fn forget(&mut self) {
        self.0.execute("SELECT pg_stat_statements_reset()").await.unwrap();
    }

    /// How often each statement was executed since, by its first word.
    async fn executed(&mut self) -> BTreeMap<String, i64> {
        let all: Vec<(String, i64)> = sqlx::query_as(
            "SELECT upper(split_part(ltrim(query), ' ', 1)), sum(calls)::bigint FROM pg_stat_statements
            WHERE query NOT LIKE '%pg_stat_statements%' AND query NOT LIKE '%pg_current_wal%'
            AND dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) GROUP BY 1",
        )
        .fetch_all(&mut self.0)
        .await
        .unwrap();
        all.into_iter().collect()
    }
}

fn counts<const N: usize>(expected: [(&str, i64); N]) -> BTreeMap<String, i64> {
    expected.into_iter().map(|(word, calls)| (word.to_owned(), calls)).collect()
}

async fn insert(mut tx: Tx<Transaction>, _: Run) -> Result<String, String> {
    let insert = sqlx::query("INSERT INTO ledger (entry) VALUES ('paid')");
    insert.execute(&mut **tx).await.map_err(|error| error.to_string())?;
    Ok("done".to_owned())
}

#[tokio::test]
async fn a_transaction_costs_three_statements_two_trips_and_no_commit_more_than_without_a_key() {
    let server = PostgresServer::start(&[
        "autovacuum=off",
        "fsync=off",
        "wal_level=minimal",
        "max_wal_senders=0",
        "shared_preload_libraries=pg_stat_statements",
        "pg_stat_statements.track=all",
    ]);
    let place = Place::on(server.database().await).await;
    let mut observer = Observer(PgConnection::connect(place.place()).await.unwrap());
    observer.0.execute("CREATE EXTENSION pg_stat_statements").await.unwrap();
    let proxy = Proxy::before(place.place()).await;
    let pool = PoolOptions::new().max_connections(1).test_before_acquire(false);
    let bare = pool.connect(proxy.url()).await.unwrap();
    let store = PostgresStore::builder().url(proxy.url()).connections(1).listen(false).open().await.unwrap();
    let idem = Transactional::new(store);
    // A connection that is given back is asked whether it is alive; a moment later its question is counted.
    let trips = async |before: u64| {
        let mut seen = proxy.trips();
        loop {
            tokio::time::sleep(Duration::from_millis(30)).await;
            if proxy.trips() == seen {
                return seen - before;
            }
            seen = proxy.trips();
        }
    };

    let mut without = (0, BTreeMap::new());
    let mut bytes_without = 0;
    for _ in 0..3 {
        observer.forget().await;
        let (before, log) = (trips(0).await, observer.log().await);
        let mut tx = bare.begin().await.unwrap();
        sqlx::query("INSERT INTO ledger (entry) VALUES ('bare')").execute(&mut *tx).await.unwrap();
        tx.commit().await.unwrap();
        without = (trips(before).await, observer.executed().await);
        bytes_without = observer.log().await - log;
    }
    assert_eq!(without.1, counts([("BEGIN", 1), ("INSERT", 1), ("COMMIT", 1)]));

    // The last time everything is prepared.
    for n in 0..4 {
        fresh(call(&idem, &format!("before {n}"), "payload").transact(insert).await).unwrap();
    }
    observer.forget().await;
    let (before, log) = (trips(0).await, observer.log().await);
    fresh(call(&idem, "k", "payload").transact(insert).await).unwrap();
    let with = trips(before).await;
    let expected = [("BEGIN", 1), ("WITH", 1), ("SAVEPOINT", 1), ("INSERT", 1), ("UPDATE", 1), ("COMMIT", 1)];
    assert_eq!(observer.executed().await, counts(expected));
    assert_eq!(with, without.0 + 3, "one each for the claim, the mark and the answer");
    println!(
        "bare: {} trips, {bytes_without} bytes of log; fresh: {with} trips, {} bytes",
        without.0,
        observer.log().await - log
    );

    // The first replay after fresh calls begins a transaction to find it; from then on each is one look.
    for n in 0..4 {
        observer.forget().await;
        let (before, log) = (trips(0).await, observer.log().await);
        assert!(call(&idem, "k", "payload").transact(insert).await.unwrap().is_replayed());
        let (trips, executed) = (trips(before).await, observer.executed().await);
        assert_eq!(observer.log().await, log, "a replay writes nothing");
        println!("replay {n}: {trips} trips, {executed:?}");
        if n > 1 {
            assert_eq!((trips, executed), (1, counts([("SELECT", 1)])));
        }
    }

    let other = place.engine().await;
    let (begun, has_begun) = oneshot::channel();
    let (go_on, goes_on) = oneshot::channel::<()>();
    let holder = tokio::spawn(call(&other, "busy", "payload").transact(|mut tx, _| async move {
        write(&mut tx, "paid").await?;
        begun.send(()).unwrap();
        goes_on.await.unwrap();
        Ok::<_, String>(String::new())
    }));
    has_begun.await.unwrap();
    for (key, payload, kind) in [
        ("k", "another", ErrorKind::Mismatch),
        ("busy", "payload", ErrorKind::InFlight),
        ("k", "another", ErrorKind::Mismatch),
    ] {
        let (before, log) = (trips(0).await, observer.log().await);
        assert_eq!(refused(call(&idem, key, payload).transact(insert).await), kind);
        println!("{kind:?}: {} trips", trips(before).await);
        assert_eq!(observer.log().await, log, "{kind:?} writes nothing");
    }
    go_on.send(()).unwrap();
    fresh(holder.await.unwrap()).unwrap();
}
