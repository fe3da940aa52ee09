//! Holders that have vanished without their connection, and what is waited for in a transaction.

use std::process::Command;

use sqlx::Connection as _;
use sqlx::postgres::PgConnection;

use super::wire::Wire;
use super::*;

/// After it an idle transaction is given up.
const LEASE: Duration = Duration::from_secs(1);

/// Calls once, and stops in the body until it is told to go on.
pub(crate) fn play(place: &str) {
    runtime().block_on(async {
        let idem = Transactional::new(Place::store_at(place).await);
        let ended = call(&idem, "k", "payload").lease(LEASE).transact(|mut tx, _| async move {
            write(&mut tx, "paused").await?;
            Point::InTheBody.stop_if(Point::InTheBody);
            Ok::<_, String>("paused".to_owned())
        });
        say(&format!("{:?}", refused(ended.await)));
    });
}

#[test]
fn a_process_that_is_stopped_in_its_transaction_blocks_a_key_no_longer_than_its_lease() {
    let runtime = runtime();
    let place = runtime.block_on(Place::new());
    let mut process = start("idle", &place);
    assert_eq!(process.hear(), "here");
    let signal = |name: &str, process: &Process| {
        let pid = process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    };
    signal("STOP", &process);
    let started = Instant::now();
    runtime.block_on(async {
        let idem = place.engine().await;
        assert_eq!(refused(call(&idem, "k", "payload").transact(pay).await), ErrorKind::InFlight);
        let patient = call(&idem, "k", "payload").in_flight(InFlight::Wait(SOON * 3));
        assert_eq!(fresh(patient.transact(pay).await).unwrap(), "attempt 1");
        assert_eq!(place.entries().await, ["paid"]);
    });
    assert!(started.elapsed() < SOON * 2, "{:?}", started.elapsed());
    signal("CONT", &process);
    process.tell("go on");
    assert_eq!(process.hear(), "CommitRefused");
    process.end();
    assert_eq!(runtime.block_on(place.entries()), ["paid"]);
}

#[tokio::test]
async fn a_holder_whose_connection_goes_dead_blocks_a_key_no_longer_than_its_lease() {
    let place = Place::new().await;
    let wire = Wire::to(place.place()).await;
    let store = PostgresStore::builder().url(wire.url()).timeout(LEASE).open().await.unwrap();
    let (begun, has_begun) = oneshot::channel();
    let (go_on, goes_on) = oneshot::channel::<()>();
    let holder = call(&Transactional::new(store), "k", "payload").lease(LEASE);
    let holder = tokio::spawn(holder.transact(|mut tx, _| async move {
        write(&mut tx, "dead").await?;
        begun.send(()).unwrap();
        goes_on.await.unwrap();
        Ok::<_, String>("dead".to_owned())
    }));
    has_begun.await.unwrap();
    wire.go_dead();
    let idem = place.engine().await;
    let patient = call(&idem, "k", "payload").in_flight(InFlight::Wait(SOON * 3));
    assert_eq!(fresh(patient.transact(pay).await).unwrap(), "attempt 1");
    go_on.send(()).unwrap();
    assert_eq!(refused(holder.await.unwrap()), ErrorKind::CommitRefused);
    assert_eq!(place.entries().await, ["paid"]);
}

/// The two time-outs, as whoever has the connection sees them.
async fn settings(connection: &mut PgConnection) -> (String, String) {
    let both =
        "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')";
    sqlx::query_as(both).fetch_one(connection).await.unwrap()
}

async fn settings_within(idem: &Transactional<Store>, key: &str) -> String {
    let ended = call(idem, key, "payload").lease(Duration::from_secs(20)).transact(|mut tx, _| async move {
        let (lock, idle) = settings(&mut tx).await;
        Ok::<_, String>(format!("{lock} {idle}"))
    });
    fresh(ended.await).unwrap()
}

#[tokio::test]
async fn time_outs_are_set_for_the_transaction_alone_and_not_where_the_user_has_set_them() {
    let place = Place::new().await;
    let limit = Duration::from_millis(300);
    for (options, expected, after) in [
        ("", "300ms 20", ("0", "0")),
        ("?options[lock_timeout]=7s", "7s 20", ("7s", "0")),
        ("?options[idle_in_transaction_session_timeout]=9s", "300ms 9s", ("0", "9s")),
    ] {
        let url = format!("{}{options}", place.place());
        let pool = PoolOptions::new().max_connections(1).connect(&url).await.unwrap();
        let store = PostgresStore::builder().pool(&pool).timeout(limit).open().await.unwrap();
        let idem = Transactional::new(store);
        // A lease is rounded up.
        let within = settings_within(&idem, "pool").await;
        assert!(within.starts_with(expected), "{within}");
        sqlx::query("DELETE FROM idem_records").execute(&pool).await.unwrap();
        let mut connection = pool.acquire().await.unwrap();
        let (lock, idle) = settings(&mut connection).await;
        assert_eq!((lock.as_str(), idle.as_str()), after);
    }
    let role = "CREATE ROLE careful LOGIN; ALTER ROLE careful SET lock_timeout = '8s';
        GRANT ALL ON ALL TABLES IN SCHEMA public TO careful; GRANT USAGE ON SCHEMA public TO careful";
    sqlx::raw_sql(role).execute(&place.pool).await.unwrap();
    let url = place.place().replace("idem@", "careful@");
    let store = PostgresStore::builder().url(&url).migrate(false).timeout(limit).open().await.unwrap();
    let within = settings_within(&Transactional::new(store), "role").await;
    sqlx::raw_sql("DROP OWNED BY careful; DROP ROLE careful").execute(&place.pool).await.unwrap();
    assert!(within.starts_with("8s 20"), "{within}");
}

#[tokio::test]
async fn spans_longer_than_a_setting_can_be_are_cut() {
    let place = Place::new().await;
    let year = Duration::from_hours(24 * 365);
    let store = PostgresStore::builder().url(place.place()).timeout(year).open().await.unwrap();
    let idem = Transactional::new(store);
    assert_eq!(fresh(call(&idem, "k", "payload").lease(year).transact(pay).await).unwrap(), "attempt 1");
}

#[tokio::test]
async fn work_that_waits_for_a_lock_gets_the_database_s_error_in_time() {
    let place = Place::new().await;
    let mut holder = PgConnection::connect(place.place()).await.unwrap();
    let mut locked = holder.begin().await.unwrap();
    sqlx::query("LOCK TABLE ledger").execute(&mut *locked).await.unwrap();
    let limit = Duration::from_millis(300);
    let store = PostgresStore::builder().url(place.place()).timeout(limit).open().await.unwrap();
    let idem = Transactional::new(store);
    let started = Instant::now();
    let error = fresh(call(&idem, "k", "payload").transact(pay).await).unwrap_err();
    assert!(error.contains("lock timeout"), "{error}");
    assert!(started.elapsed() < SOON, "{:?}", started.elapsed());
    locked.rollback().await.unwrap();
    assert_eq!(fresh(call(&idem, "k", "payload").transact(pay).await).unwrap(), "attempt 2");
}
