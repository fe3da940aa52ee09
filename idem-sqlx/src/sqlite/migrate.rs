//! Migrations: making and upgrading the tables.

use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Executor as _, Row as _};

use super::fault::Fault;
use super::source::{Link, Source};
use crate::dialect::Migration;
use crate::dialect::sqlite::MIGRATIONS;
use crate::fault::misconfigured;
use crate::step::Value;
use crate::table::TableName;

/// The version of the tables that this release works with.
pub(super) const LATEST: u32 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// All migrations for a table, oldest first.
pub(super) fn texts(table: &TableName) -> Vec<Migration> {
    MIGRATIONS
        .iter()
        .map(|text| Migration { version: text.version, name: text.name, sql: table.put_into(text.sql) })
        .collect()
}

/// The version of the table; 0 if there is none.
pub(super) async fn version(source: &Source, link: &mut Link) -> Result<u32, Fault> {
    const THERE: &str = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'idem_migrations'";
    if link.connection.fetch_optional(sqlx::query(THERE)).await.map_err(Fault::of)?.is_none() {
        return Ok(0);
    }
    let text = &source.texts.version;
    let mut arguments = SqliteArguments::default();
    text.bind(&[Value::Text(source.table.as_str().into())], &mut arguments).map_err(Fault::of)?;
    let done = link.execute(text.once(), arguments).await?;
    let Some(row) = done.rows.first() else { return Ok(0) };
    row.try_get(0).map_err(Fault::of)
}

/// Brings the tables to the latest version; does nothing if they are.
pub(super) async fn run(source: &Source, link: &mut Link) -> Result<(), Fault> {
    if version(source, link).await? == LATEST {
        return Ok(());
    }
    link.command("BEGIN IMMEDIATE").await?;
    let result = async {
        // Again, now that no other process can be at it.
        let from = version(source, link).await?;
        if from > LATEST {
            return Err(Fault::Refused(misconfigured("the tables are from a newer release")));
        }
        for migration in texts(&source.table).into_iter().filter(|migration| migration.version > from) {
            link.connection.execute(sqlx::raw_sql(AssertSqlSafe(migration.sql))).await.map_err(Fault::of)?;
        }
        link.command("COMMIT").await
    }
    .await;
    if result.is_err() {
        // The first error is the one to tell.
        let _ = link.command("ROLLBACK").await;
    }
    result
}
