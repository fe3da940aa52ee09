//! What decides when a lock does not: the unique constraint, and the database's own refusals.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use super::*;

async fn execute(connection: &mut PgConnection, sql: &str) {
    connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await.unwrap();
}

async fn number(connection: &mut PgConnection, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn who_ignores_the_lock_is_stopped_by_the_unique_constraint() {
    let place = Place::new().await;
    let idem = place.engine().await;
    let (mut raw, mut observer) = (
        PgConnection::connect(place.place()).await.unwrap(),
        PgConnection::connect(place.place()).await.unwrap(),
    );
    let done = call(&idem, "k", "payload").run(|_| async { Ok::<_, String>("raw".to_owned()) });
    fresh(done.await).unwrap();
    execute(&mut raw, "CREATE TABLE kept AS SELECT * FROM idem_records; DELETE FROM idem_records").await;
    for end in ["COMMIT", "ROLLBACK"] {
        execute(&mut raw, "DELETE FROM idem_records; DELETE FROM ledger").await;
        execute(&mut raw, "BEGIN; INSERT INTO idem_records SELECT * FROM kept").await;
        let caller = tokio::spawn(call(&idem, "k", "payload").transact(pay));
        let blocked = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'";
        while number(&mut observer, blocked).await == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        execute(&mut raw, end).await;
        let ended = caller.await.unwrap();
        if end == "COMMIT" {
            assert!(matches!(ended, Ok(Outcome::Replayed(Ok(ref text))) if text == "raw"), "{ended:?}");
            assert!(place.entries().await.is_empty());
        } else {
            assert_eq!(fresh(ended).unwrap(), "attempt 1");
            assert_eq!(place.entries().await, ["paid"]);
        }
    }

    // Nobody waits for it longer than for any lock.
    execute(&mut raw, "DELETE FROM idem_records; DELETE FROM ledger").await;
    execute(&mut raw, "BEGIN; INSERT INTO idem_records SELECT * FROM kept").await;
    let limit = Duration::from_millis(300);
    let store = PostgresStore::builder().url(place.place()).timeout(limit).open().await.unwrap();
    let impatient = Transactional::new(store);
    let started = Instant::now();
    let ended = call(&impatient, "k", "payload").transact(pay).await;
    assert_eq!(refused(ended), ErrorKind::StoreUnavailable);
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    execute(&mut raw, "ROLLBACK").await;
    assert_eq!(fresh(call(&impatient, "k", "payload").transact(pay).await).unwrap(), "attempt 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_lock_each_key_has_one_effect_all_the_same() {
    let place = Place::new().await;
    let mut raw = PgConnection::connect(place.place()).await.unwrap();
    // Each session finds these in the place of PostgreSQL's own.
    execute(
        &mut raw,
        "CREATE SCHEMA free;
        CREATE FUNCTION free.pg_try_advisory_xact_lock(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE FUNCTION free.pg_try_advisory_xact_lock_shared(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    )
    .await;
    let url = format!("{}?options[search_path]=free,public,pg_catalog", place.place());
    let idems = [Place::store_at(&url).await, Place::store_at(&url).await].map(Transactional::new);
    for round in 0..10 {
        let gate = Arc::new(tokio::sync::Barrier::new(12));
        let callers: Vec<_> = (0..12)
            .map(|n| {
                let (idem, gate) = (idems[n % 2].clone(), Arc::clone(&gate));
                tokio::spawn(async move {
                    let key = format!("{round}");
                    let patient = call(&idem, &key, "payload").in_flight(InFlight::Wait(SOON * 2));
                    gate.wait().await;
                    patient
                        .transact(move |mut tx, run| async move {
                            let held: i64 = sqlx::query_scalar(LOCKS).fetch_one(&mut **tx).await.unwrap();
                            assert_eq!(held, 0, "the lock is not taken");
                            let insert = sqlx::query("INSERT INTO ledger (entry) VALUES ('paid')");
                            insert.execute(&mut **tx).await.unwrap();
                            tokio::task::yield_now().await;
                            // Its successors wait for it, and one of them takes over.
                            let fails = round % 2 == 1 && run.attempt() == 1;
                            if fails { Err("no luck".to_owned()) } else { Ok(String::new()) }
                        })
                        .await
                })
            })
            .collect();
        let (mut ran, mut failed) = (0, 0);
        for caller in callers {
            match caller.await.unwrap() {
                Ok(Outcome::Fresh(Ok(_))) => ran += 1,
                Ok(Outcome::Fresh(Err(_))) => failed += 1,
                Ok(Outcome::Replayed(Ok(_))) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((ran, failed), (1, round % 2), "round {round}");
    }
    assert_eq!(place.entries().await, ["paid"; 10]);
}

#[tokio::test]
async fn a_failed_statement_that_the_work_passes_over_is_not_committed() {
    let place = Place::new().await;
    let idem = place.engine().await;
    for what in ["with a key", "without"] {
        let call = match what {
            "with a key" => call(&idem, "k", "payload"),
            _ => idem.call("tests").fingerprint("payload").missing(idem_core::policy::Missing::Run),
        };
        let ended = call.transact(|mut tx, _| async move {
            write(&mut tx, "paid").await?;
            assert!(sqlx::query("SELECT 1 / 0").execute(&mut **tx).await.is_err());
            Ok::<_, String>("fine".to_owned())
        });
        let error = ended.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CommitRefused, "{what}");
        let links = std::iter::successors(std::error::Error::source(&error), |link| link.source());
        let chain = links.map(ToString::to_string).collect::<Vec<_>>().join("; ");
        assert!(chain.contains("a statement failed in this transaction, and the work went on"), "{chain}");
        assert!(place.entries().await.is_empty());
    }
    assert_eq!(fresh(call(&idem, "k", "another").transact(pay).await).unwrap(), "attempt 1");
}

#[tokio::test]
async fn a_constraint_that_is_checked_at_the_commit_refuses_it() {
    let place = Place::new().await;
    let idem = place.engine().await;
    sqlx::raw_sql(
        "CREATE TABLE accounts (id INTEGER PRIMARY KEY);
        CREATE TABLE payments (account INTEGER REFERENCES accounts DEFERRABLE INITIALLY DEFERRED)",
    )
    .execute(&place.pool)
    .await
    .unwrap();
    let ended = call(&idem, "k", "payload").transact(|mut tx, _| async move {
        write(&mut tx, "orphan").await?;
        sqlx::query("INSERT INTO payments VALUES (1)").execute(&mut **tx).await.unwrap();
        Ok::<_, String>("fine".to_owned())
    });
    assert_eq!(refused(ended.await), ErrorKind::CommitRefused);
    assert!(place.entries().await.is_empty());
    assert_eq!(fresh(call(&idem, "k", "payload").transact(pay).await).unwrap(), "attempt 1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stricter_isolation_changes_no_answer() {
    for isolation in ["repeatable read", "serializable"] {
        let place = Place::new().await;
        let name: String =
            sqlx::query_scalar("SELECT current_database()::text").fetch_one(&place.pool).await.unwrap();
        let set = format!("ALTER DATABASE {name} SET default_transaction_isolation = '{isolation}'");
        sqlx::raw_sql(AssertSqlSafe(set)).execute(&place.pool).await.unwrap();
        let idems = [place.engine().await, place.engine().await];
        let mut undone = 0;
        for round in 0..10 {
            let gate = Arc::new(tokio::sync::Barrier::new(16));
            let callers: Vec<_> = (0..16)
                .map(|n| {
                    let (idem, gate) = (idems[n % 2].clone(), Arc::clone(&gate));
                    tokio::spawn(async move {
                        let key = format!("{round} {}", n % 3);
                        gate.wait().await;
                        let mut undone = 0;
                        loop {
                            let patient = call(&idem, &key, "payload").in_flight(InFlight::Wait(SOON * 2));
                            let ended = patient.transact(move |mut tx, _| async move {
                                let shown = sqlx::query_scalar::<_, String>("SHOW transaction_isolation");
                                assert_eq!(shown.fetch_one(&mut **tx).await.unwrap(), isolation);
                                let insert = sqlx::query("INSERT INTO ledger (entry) VALUES ('paid')");
                                insert.execute(&mut **tx).await.map_err(|error| error.to_string())?;
                                Ok::<_, String>(String::new())
                            });
                            match ended.await {
                                Ok(Outcome::Fresh(Ok(_)) | Outcome::Replayed(Ok(_))) => return undone,
                                // Its own work met another's: that is the caller's isolation, and nothing is left.
                                Err(error) if error.kind() == ErrorKind::CommitRefused => undone += 1,
                                other => panic!("{isolation}: {other:?}"),
                            }
                        }
                    })
                })
                .collect();
            for caller in callers {
                undone += caller.await.unwrap();
            }
            let mismatch = call(&idems[0], &format!("{round} 0"), "another").transact(pay).await;
            assert_eq!(refused(mismatch), ErrorKind::Mismatch);
        }
        println!("{isolation}: {undone} commits were refused");
        assert_eq!(place.entries().await, ["paid"; 30]);
    }
}
