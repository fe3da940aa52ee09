//! The ledger: the table in which effects of transactions are rows. It has no unique column: a second effect is to be seen.

use sqlx::{AssertSqlSafe, Executor as _, MySqlPool, PgPool, SqlitePool, raw_sql};

const READ: &str = "SELECT run, begun FROM chaos_effects";

/// A table in the database of the store.
#[derive(Debug, Clone)]
pub(super) enum Ledger {
    Nowhere,
    Sqlite(SqlitePool),
    Postgres(PgPool),
    MySql(MySqlPool),
}

impl Ledger {
    /// Makes the table, if nobody has yet.
    pub(super) async fn create(&self) -> sqlx::Result<()> {
        let sql =
            "CREATE TABLE IF NOT EXISTS chaos_effects (run VARCHAR(64) NOT NULL, begun BIGINT NOT NULL)";
        let sql = raw_sql(AssertSqlSafe(sql));
        match self {
            Self::Nowhere => {}
            Self::Sqlite(pool) => {
                pool.execute(sql).await?;
            }
            Self::Postgres(pool) => {
                pool.execute(sql).await?;
            }
            Self::MySql(pool) => {
                pool.execute(sql).await?;
            }
        }
        Ok(())
    }

    /// All rows: which run it was, and when it began.
    pub(super) async fn rows(&self) -> sqlx::Result<Vec<(String, i64)>> {
        match self {
            Self::Nowhere => Ok(Vec::new()),
            Self::Sqlite(pool) => sqlx::query_as(READ).fetch_all(pool).await,
            Self::Postgres(pool) => sqlx::query_as(READ).fetch_all(pool).await,
            Self::MySql(pool) => sqlx::query_as(READ).fetch_all(pool).await,
        }
    }
}
