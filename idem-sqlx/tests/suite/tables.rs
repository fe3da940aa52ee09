//! Tables: their names and their migrations.

use idem_core::store::{Claimed, Store as _, StoreErrorKind};
use idem_sqlx::TableName;

use super::{Backend, Options};
use crate::common::{DAY, claim, completed, id};

pub(crate) async fn two_tables_in_one_database_do_not_meet<B: Backend>() {
    let home = B::new().await;
    let one = home.open().await;
    // A keyword, to see that names are quoted.
    let other = B::open_at(&home.place(), Options::table("order")).await.unwrap();
    completed(&one, &id("k"), DAY).await;
    completed(&other, &id("k"), DAY).await;
    let mut direct = home.direct().await;
    for table in ["idem_records", "order"] {
        let first =
            format!("SELECT count(*) FROM idem_migrations WHERE version = 1 AND records_table = '{table}'");
        assert_eq!(B::number(&mut direct, &first).await, 1);
    }
    assert_eq!(B::number(&mut direct, "SELECT count(*) FROM idem_migrations").await, 2);
}

pub(crate) async fn a_table_name_cannot_carry_a_statement<B: Backend>() {
    let home = B::new().await;
    let evil =
        ["x\"; DROP TABLE users; --", "x`; --", "x'", "", "a b", "a.b", "$1", "Records", "idem_migrations"];
    for name in evil.iter().chain(B::RESERVED) {
        let refused = B::open_at(&home.place(), Options::table(name)).await.unwrap_err();
        assert_eq!(refused.kind(), StoreErrorKind::Misconfigured, "{name:?}");
    }
}

pub(crate) async fn migrating_again_changes_nothing<B: Backend>() {
    let home = B::new().await;
    for store in home.variants(Options::default()).await {
        completed(&store, &id("k"), DAY).await;
        for _ in 0..3 {
            B::migrate(&store).await.unwrap();
        }
        assert!(matches!(store.claim(&id("k"), &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
    }
    let again = home.open().await;
    assert!(matches!(again.claim(&id("k"), &claim("payload")).await.unwrap(), Claimed::Completed { .. }));
}

pub(crate) async fn the_text_of_the_migrations_makes_a_table_that_opens<B: Backend>() {
    let home = B::new().await;
    let mut direct = home.direct().await;
    for migration in B::migrations(&TableName::new("keys_of_acme").unwrap()) {
        B::execute(&mut direct, &migration.sql).await;
    }
    let unmigrated = Options { migrate: false, ..Options::table("keys_of_acme") };
    let store = B::open_at(&home.place(), unmigrated).await.unwrap();
    completed(&store, &id("k"), DAY).await;
    assert_eq!(B::number(&mut direct, "SELECT count(*) FROM keys_of_acme").await, 1);
    assert_eq!(B::migrations(&TableName::default()).remove(0).sql, B::FIRST_MIGRATION);
}
