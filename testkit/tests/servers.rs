//! The servers start, obey, and leave nothing behind.

mod killed;

use std::time::Duration;

use idem_testkit::{MariaDb, MariaDbServer, Postgres, PostgresServer, Server, SqlProduct};
use sqlx::Connection as _;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;

async fn answered<P: SqlProduct>(_: &Server<P>, url: &str) -> bool {
    let asked = P::execute(url.to_owned(), "SELECT 1".to_owned());
    matches!(tokio::time::timeout(Duration::from_secs(1), asked).await, Ok(Ok(())))
}

async fn each_test_has_a_database_of_its_own<P: SqlProduct>(server: &Server<P>) {
    let (one, other) = (server.database().await, server.database().await);
    assert_ne!(one.name(), other.name());
    for (database, value) in [(&one, "first"), (&other, "second")] {
        P::execute(database.url().into(), "CREATE TABLE kept (value varchar(9))".into()).await.unwrap();
        P::execute(database.url().into(), format!("INSERT INTO kept VALUES ('{value}')")).await.unwrap();
    }
    let contents =
        |database: &idem_testkit::Database| String::from_utf8_lossy(&database.contents("kept")).into_owned();
    assert!(contents(&one).contains("first") && !contents(&one).contains("second"));
    assert!(contents(&other).contains("second") && !contents(&other).contains("first"));
}

/// Makes the tests of a product. What is asked of a setting says what it is.
macro_rules! servers {
    ($product:ident: $Server:ident, $Connection:ident, $durable:literal, $setting:literal, $asked:literal) => {
        mod $product {
            use super::*;

            #[tokio::test]
            async fn each_test_has_a_database_of_its_own_on_one_durable_server() {
                let server = $Server::shared();
                each_test_has_a_database_of_its_own(server).await;
                let database = server.database().await;
                let mut connection = $Connection::connect(database.url()).await.unwrap();
                let durable: bool = sqlx::query_scalar($durable).fetch_one(&mut connection).await.unwrap();
                assert!(durable);
            }

            #[tokio::test]
            async fn a_server_is_paused_killed_and_restarted_on_its_data() {
                let mut server = $Server::start(&[$setting]);
                let database = server.database().await;
                let url = database.url();
                let mut connection = $Connection::connect(url).await.unwrap();
                let set: bool = sqlx::query_scalar($asked).fetch_one(&mut connection).await.unwrap();
                assert!(set);
                sqlx::query("CREATE TABLE kept (n int)").execute(&mut connection).await.unwrap();
                sqlx::query("INSERT INTO kept VALUES (7)").execute(&mut connection).await.unwrap();

                server.pause();
                let asked = tokio::time::timeout(Duration::from_millis(300), connection.ping()).await;
                assert!(asked.is_err(), "a paused server says nothing: {asked:?}");
                assert!(!answered(&server, url).await);
                server.resume();
                assert!(answered(&server, url).await);

                server.kill();
                assert!(!answered(&server, url).await);
                server.restart();
                let mut connection = $Connection::connect(url).await.unwrap();
                let kept: i32 =
                    sqlx::query_scalar("SELECT n FROM kept").fetch_one(&mut connection).await.unwrap();
                assert_eq!(kept, 7);
            }

            #[test]
            fn a_killed_test_leaves_no_server_behind() {
                for what in [stringify!($product), concat!(stringify!($product), ", paused")] {
                    killed::leaves_no_server_behind("the_killed_process", what);
                }
            }
        }
    };
}

servers!(
    postgres: PostgresServer, PgConnection, "SELECT current_setting('fsync') = 'on'", "work_mem=5MB",
    "SELECT current_setting('work_mem') = '5MB'"
);
servers!(
    mariadb: MariaDbServer, MySqlConnection, "SELECT @@innodb_flush_log_at_trx_commit = 1 AND @@innodb_doublewrite",
    "innodb-lock-wait-timeout=7", "SELECT @@innodb_lock_wait_timeout = 7"
);

#[tokio::test]
async fn a_session_of_mariadb_can_be_fourteen_hours_ahead() {
    let mut connection = MySqlConnection::connect(&MariaDbServer::shared().url("mysql")).await.unwrap();
    let ahead = "SELECT timestampdiff(HOUR, utc_timestamp, convert_tz(utc_timestamp, '+00:00', 'Pacific/Kiritimati'))";
    let hours: i64 = sqlx::query_scalar(ahead).fetch_one(&mut connection).await.unwrap();
    assert_eq!(hours, 14);
}

/// Not a test by itself: what others kill.
#[test]
#[ignore = "started by another test"]
fn the_killed_process() {
    fn wait<P: SqlProduct>(paused: bool) {
        let mut server = Server::<P>::start(&[]);
        if paused {
            server.pause();
        }
        killed::wait_with(&[server.port()]);
    }
    let Some(what) = killed::what_to_start() else { return };
    let paused = what.ends_with(", paused");
    match what.trim_end_matches(", paused") {
        "postgres" => wait::<Postgres>(paused),
        "mariadb" => wait::<MariaDb>(paused),
        other => panic!("no such product: {other}"),
    }
}
