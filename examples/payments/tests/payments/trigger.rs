//! Triggers that a test sets beside the service: they make steps of a transfer fail or take long.

use std::str::FromStr as _;
use std::time::Duration;

use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _};

use crate::home::Home;
use crate::http::until;

/// The step of a transfer that a trigger is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The claim's row is not yet there.
    Claim,
    /// The body's last write; others are done.
    Write,
    /// The answer's write, the last before the commit.
    Answer,
}

impl Step {
    fn event(self) -> &'static str {
        match self {
            Self::Claim => "BEFORE INSERT ON idem_records",
            Self::Write => "BEFORE INSERT ON transfers",
            Self::Answer => "BEFORE UPDATE ON idem_records",
        }
    }
}

impl Home {
    /// Makes a step take some seconds.
    pub async fn slow_down(&self, step: Step) {
        let event = step.event();
        let statements = match self.scheme() {
            "postgres" => format!(
                "CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS
                     'BEGIN PERFORM pg_sleep(2); RETURN NEW; END';
                 CREATE TRIGGER dawdle {event} FOR EACH ROW EXECUTE FUNCTION dawdle()"
            ),
            "mysql" => format!("CREATE TRIGGER dawdle {event} FOR EACH ROW DO SLEEP(2)"),
            // SQLite has no sleep; it can count.
            _ => format!(
                "CREATE VIEW long AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000000)
                     SELECT count(*) FROM n;
                 CREATE TRIGGER dawdle {event} BEGIN SELECT * FROM long; END"
            ),
        };
        self.execute(statements).await;
    }

    /// Waits until somebody is in the step that was slowed down.
    pub async fn somebody_dawdles(&self) {
        until("the slow step", || async {
            let sleepers: i64 = match self.scheme() {
                "postgres" => {
                    let mut connection = PgConnection::connect(&self.store).await.unwrap();
                    let count = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'
                        AND datname = current_database()";
                    sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap()
                }
                "mysql" => {
                    let mut connection = MySqlConnection::connect(&self.store).await.unwrap();
                    let count =
                        "SELECT count(*) FROM information_schema.processlist WHERE state = 'User sleep'
                        AND db = database()";
                    sqlx::query_scalar(count).fetch_one(&mut connection).await.unwrap()
                }
                _ => {
                    let options = SqliteConnectOptions::from_str(&self.store).unwrap();
                    let options = options.busy_timeout(Duration::ZERO);
                    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
                    let mut is_locked = true;
                    // No other step holds the lock so long.
                    for _ in 0..20 {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        is_locked &= connection.execute("BEGIN IMMEDIATE; ROLLBACK").await.is_err();
                    }
                    i64::from(is_locked)
                }
            };
            (sleepers > 0).then_some(())
        })
        .await;
    }

    /// Undoes [`slow_down`](Self::slow_down), when nobody is in that step any more.
    pub async fn speed_up(&self, step: Step) {
        let (_, table) = step.event().split_once(" ON ").unwrap();
        self.execute(match self.scheme() {
            "postgres" => format!("DROP TRIGGER dawdle ON {table}; DROP FUNCTION dawdle()"),
            "mysql" => "DROP TRIGGER dawdle".to_owned(),
            _ => "DROP TRIGGER dawdle; DROP VIEW long".to_owned(),
        })
        .await;
    }

    /// Lets the last write of transfers of this amount fail.
    pub async fn let_transfers_fail(&self, amount: i64) {
        self.execute(match self.scheme() {
            "postgres" => format!(
                "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
                     'BEGIN RAISE EXCEPTION ''no luck''; END';
                 CREATE TRIGGER fail BEFORE INSERT ON transfers FOR EACH ROW WHEN (NEW.amount = {amount})
                     EXECUTE FUNCTION fail()"
            ),
            "mysql" => format!(
                "CREATE TRIGGER fail BEFORE INSERT ON transfers FOR EACH ROW
                     IF NEW.amount = {amount} THEN SIGNAL SQLSTATE '45000'; END IF"
            ),
            _ => format!(
                "CREATE TRIGGER fail BEFORE INSERT ON transfers WHEN NEW.amount = {amount}
                     BEGIN SELECT RAISE(ABORT, 'no luck'); END"
            ),
        })
        .await;
    }

    /// Undoes [`let_transfers_fail`](Self::let_transfers_fail).
    pub async fn let_transfers_succeed(&self) {
        self.execute(match self.scheme() {
            "postgres" => "DROP TRIGGER fail ON transfers; DROP FUNCTION fail()".to_owned(),
            _ => "DROP TRIGGER fail".to_owned(),
        })
        .await;
    }

    fn scheme(&self) -> &str {
        self.store.split_once(':').unwrap().0
    }

    /// Executes statements as one text.
    async fn execute(&self, statements: String) {
        let statements = sqlx::raw_sql(AssertSqlSafe(statements));
        match self.scheme() {
            "postgres" => {
                let mut connection = PgConnection::connect(&self.store).await.unwrap();
                connection.execute(statements).await.unwrap();
                connection.close().await.unwrap();
            }
            "mysql" => {
                let mut connection = MySqlConnection::connect(&self.store).await.unwrap();
                connection.execute(statements).await.unwrap();
                connection.close().await.unwrap();
            }
            _ => {
                let options = SqliteConnectOptions::from_str(&self.store).unwrap();
                let options = options.busy_timeout(crate::service::PATIENCE);
                let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
                connection.execute(statements).await.unwrap();
                connection.close().await.unwrap();
            }
        }
    }
}
