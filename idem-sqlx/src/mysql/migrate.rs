//! Migrations: making and upgrading the tables.

use idem_core::store::{StoreError, StoreErrorKind};
use sqlx::Row as _;
use sqlx::mysql::MySql;

use super::fault;
use super::text::{Names, Texts};
use crate::dialect::Migration;
use crate::dialect::mysql::MIGRATIONS;
use crate::fault::{Fault, misconfigured};
use crate::lines::{Line, Order};
use crate::step::Value;

/// The version of the tables that this release works with.
pub(super) const LATEST: u32 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// Whoever makes tables holds this lock of the session. It waits but a second, and is asked for again: a session that
/// nobody listens to any more must not get it much later.
const LOCK: &str = "SELECT CAST(COALESCE(GET_LOCK('idem_migrations', 1), -1) AS SIGNED)";
const UNLOCK: &str = "DO RELEASE_LOCK('idem_migrations')";

/// All migrations for a table, oldest first.
pub(super) fn texts(names: &Names) -> Vec<Migration> {
    MIGRATIONS
        .iter()
        .map(|text| Migration { version: text.version, name: text.name, sql: names.put_into(text.sql) })
        .collect()
}

/// The version of the table; 0 if there is none.
async fn version(line: &mut Line<'_, MySql>, names: &Names, texts: &Texts) -> Result<u32, Fault> {
    let database = names.database.as_ref().map_or("DATABASE()".to_owned(), |name| format!("'{name}'"));
    let there = format!(
        "SELECT CAST(COUNT(*) AS SIGNED) FROM information_schema.tables
        WHERE table_schema = {database} AND table_name = 'idem_migrations'"
    );
    if number(line, there).await? == 0 {
        return Ok(0);
    }
    let values = [Value::Text(names.table.as_str().into())];
    let version = number(line, texts.version.with_values(&values)).await?;
    Ok(u32::try_from(version).unwrap_or(u32::MAX))
}

/// Brings the tables to the latest version; does nothing if they are.
///
/// A definition is committed by itself. So nobody else may be at it, and what was left half done is done again.
pub(super) async fn run(line: &mut Line<'_, MySql>, names: &Names, texts: &Texts) -> Result<(), Fault> {
    if version(line, names, texts).await? == LATEST {
        return Ok(());
    }
    loop {
        match number(line, LOCK.to_owned()).await? {
            0 => {}
            1 => break,
            _ => {
                let reason = "the server gave no lock to migrate under";
                return Err(Fault::Broken(StoreError::with_source(StoreErrorKind::Unavailable, reason)));
            }
        }
    }
    // Left in the middle, the lock ends with the connection: who returns an error does not give it back.
    let from = version(line, names, texts).await?;
    if from > LATEST {
        return Err(Fault::Refused(misconfigured("the tables are from a newer release")));
    }
    for migration in self::texts(names).into_iter().filter(|migration| migration.version > from) {
        line.execute(Order::Simple(migration.sql)).await?;
    }
    line.execute(Order::Simple(UNLOCK.to_owned())).await.map(drop)
}

/// Refuses a database whose tables are not those of this release.
pub(super) async fn check_version(
    line: &mut Line<'_, MySql>,
    names: &Names,
    texts: &Texts,
) -> Result<(), Fault> {
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

async fn number(line: &mut Line<'_, MySql>, sql: String) -> Result<i64, Fault> {
    let done = line.execute(Order::Simple(sql)).await?;
    done.rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(fault::of)
}
