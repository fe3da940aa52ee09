//! The store on what MySQL sees of the statements: what is for MariaDB alone is taken out of them. It stands in for a
//! server of MySQL as far as they go.

use std::str::FromStr as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use idem_core::conformance::Subject;
use idem_core::conformance_tests;
use idem_testkit::{Database, MariaDbServer};
use sqlx::mysql::MySqlConnectOptions;
use tokio::sync::OnceCell;

use super::text::{Names, Texts};
use super::transaction::Beginnings;
use super::{MySqlServer, MySqlStore};
use crate::dialect::Statements;
use crate::dialect::mysql::STATEMENTS;
use crate::lines::Lines;
use crate::table::TableName;

struct WithoutReturning;

impl Subject for WithoutReturning {
    type Store = MySqlStore;

    async fn fresh(&self) -> MySqlStore {
        static DATABASE: OnceCell<Database> = OnceCell::const_new();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let database = DATABASE.get_or_init(|| MariaDbServer::shared().database()).await;
        let table = format!("keys_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let names = Names { database: None, table: TableName::new(&table).expect("a name") };
        let options = MySqlConnectOptions::from_str(database.url()).expect("a URL");
        let beginnings = Beginnings::own(options.clone(), 8, Duration::from_secs(5));
        let lines = Lines::own(options, 8);
        let texts = Texts::new(&as_mysql_reads(&STATEMENTS), &names);
        let server = MySqlServer { texts, ..MySqlServer::new(lines, beginnings, names, true) };
        let store = MySqlStore::new(server, Duration::from_secs(5));
        store.set_up(true).await.expect("a table");
        store
    }

    async fn pass(&self, span: Duration) {
        tokio::time::sleep(span + Duration::from_millis(5)).await;
    }
}

/// The statements without the comments of which MariaDB reads the contents.
fn as_mysql_reads(all: &Statements) -> Statements {
    let read = |statement: &'static str| -> &'static str {
        let mut rest = statement.to_owned();
        while let Some((before, after)) = rest.split_once("/*M!") {
            let (_, after) = after.split_once("*/").expect("the end of a comment");
            rest = format!("{before}{after}");
        }
        Box::leak(rest.into_boxed_str())
    };
    Statements {
        claim: read(all.claim),
        claim_alone: read(all.claim_alone),
        claim_joined: read(all.claim_joined),
        is_free: read(all.is_free),
        reclaim: read(all.reclaim),
        take_over: read(all.take_over),
        complete: read(all.complete),
        undo: read(all.undo),
        fail: read(all.fail),
        renew: read(all.renew),
        settle: read(all.settle),
        erase: read(all.erase),
        sweep: read(all.sweep),
        ..*all
    }
}

#[test]
fn no_statement_has_anything_for_mariadb_alone_left() {
    let all = as_mysql_reads(&STATEMENTS);
    assert!(all.claim.trim().starts_with("INSERT") && all.claim.trim().ends_with("NULL)"), "{}", all.claim);
    assert!(all.renew.trim().starts_with("UPDATE"), "{}", all.renew);
}

conformance_tests!(mod claims, WithoutReturning);
