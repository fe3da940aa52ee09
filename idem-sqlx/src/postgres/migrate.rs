//! Migrations: making and upgrading the tables.

use sqlx::Row as _;

use super::fault;
use super::lines::{Line, Order};
use super::text::{Names, Texts};
use crate::dialect::Migration;
use crate::dialect::postgres::MIGRATIONS;
use crate::fault::{Fault, misconfigured};
use crate::step::Value;

/// The version of the tables that this release works with.
pub(super) const LATEST: u32 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// Whoever makes tables holds this advisory lock until they are made. The number is `idem_mig` in ASCII.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7594310265391868263)";

/// All migrations for a table, oldest first.
pub(super) fn texts(names: &Names) -> Vec<Migration> {
    MIGRATIONS
        .iter()
        .map(|text| Migration { version: text.version, name: text.name, sql: names.put_into(text.sql) })
        .collect()
}

/// The version of the table; 0 if there is none.
async fn version(line: &mut Line, names: &Names, texts: &Texts) -> Result<u32, Fault> {
    // Alone, `to_regclass` would tell what it told before another process made the table: only the use of a table, here
    // of the catalogue, makes a session hear of such changes.
    let there = names.put_into(
        r#"SELECT EXISTS (SELECT FROM pg_catalog.pg_class WHERE oid = to_regclass('"idem_migrations"'))"#,
    );
    let done = line.execute(Order::Simple(there)).await?;
    let there: bool = done.rows.first().map_or(Ok(false), |row| row.try_get(0)).map_err(fault::of)?;
    if !there {
        return Ok(0);
    }
    let values = [Value::Text(names.table.as_str().into())];
    let done = line.execute(Order::Simple(texts.version.with_values(&values))).await?;
    let version: i64 = done.rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(fault::of)?;
    Ok(u32::try_from(version).unwrap_or(u32::MAX))
}

/// Brings the tables to the latest version; does nothing if they are.
pub(super) async fn run(line: &mut Line, names: &Names, texts: &Texts) -> Result<(), Fault> {
    if version(line, names, texts).await? == LATEST {
        return Ok(());
    }
    // Left in the middle, the transaction ends with the connection.
    command(line, "BEGIN").await?;
    command(line, LOCK).await?;
    // Again, now that no other process can be at it.
    let from = version(line, names, texts).await?;
    if from > LATEST {
        return Err(Fault::Refused(misconfigured("the tables are from a newer release")));
    }
    for migration in self::texts(names).into_iter().filter(|migration| migration.version > from) {
        line.execute(Order::Simple(migration.sql)).await?;
    }
    command(line, "COMMIT").await
}

/// Refuses a database whose tables are not those of this release.
pub(super) async fn check_version(line: &mut Line, names: &Names, texts: &Texts) -> Result<(), Fault> {
    let found = version(line, names, texts).await?;
    if found == LATEST {
        return Ok(());
    }
    let table = &names.table;
    Err(Fault::Refused(misconfigured(if found > LATEST {
        format!("table `{table}` has version {found}, from a newer release; this one knows {LATEST}")
    } else if found == 0 {
        format!("there is no table `{table}` of idem; run `migrate`")
    } else {
        format!("table `{table}` has version {found} of {LATEST}; run `migrate`")
    })))
}

async fn command(line: &mut Line, statement: &str) -> Result<(), Fault> {
    line.execute(Order::Simple(statement.to_owned())).await.map(drop)
}
