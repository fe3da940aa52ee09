//! How lines speak to MySQL and MariaDB.

use sqlx::mysql::{MySql, MySqlConnection, MySqlQueryResult};
use sqlx::{AssertSqlSafe, Executor as _};

use super::fault;
use crate::fault::Fault;
use crate::lines::{Order, Results, Server};

impl Server for MySql {
    /// MariaDB is told so by each statement; to MySQL it can only be said of a session. Its waits have whole seconds.
    const GREETING: Option<&'static str> = Some("SET SESSION innodb_lock_wait_timeout = 1");

    fn send(connection: &mut MySqlConnection, order: Order<Self>) -> Results<'_, Self> {
        match order {
            Order::Prepared(text, arguments) => {
                connection.fetch_many(sqlx::query_with(AssertSqlSafe(text), arguments))
            }
            Order::Simple(text) => connection.fetch_many(sqlx::raw_sql(AssertSqlSafe(text))),
        }
    }

    fn changed(result: &MySqlQueryResult) -> u64 {
        result.rows_affected()
    }

    fn fault(error: sqlx::Error) -> Fault {
        fault::of(error)
    }
}
