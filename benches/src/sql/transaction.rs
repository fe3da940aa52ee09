//! Whole calls in transaction mode against the caller's own bare transaction: BEGIN, one INSERT, COMMIT.

/// From where on the rows of each contender are counted: they are all in one ledger.
pub(super) const OURS: u64 = 1 << 40;
pub(super) const REPLAYED: u64 = 1 << 41;

/// Makes `transactions(url, count)` for a database: the bare transaction, a fresh call and a replay, on pools of one size.
macro_rules! transactions {
    ($store:ty, $options:ty, $insert:literal) => {
        async fn transactions(url: &str, count: usize) -> Vec<crate::contest::Contender> {
            use std::sync::Arc;

            use idem::{Outcome, Transactional};

            use crate::contest::Contender;
            use crate::ours::KEPT;
            use crate::sql::ANSWER;
            use crate::sql::transaction::{OURS, REPLAYED};

            let pool = || {
                let count = u32::try_from(count).expect("a few");
                <$options>::new().max_connections(count).test_before_acquire(false).connect(url)
            };
            let own = pool().await.expect("a pool");
            let table = "CREATE TABLE ledger (id BIGINT NOT NULL PRIMARY KEY, entry VARCHAR(1000) NOT NULL)";
            sqlx::query(table).execute(&own).await.expect("a table");
            let store = <$store>::from_pool(&pool().await.expect("a pool")).await.expect("a store");
            let idem = Transactional::new(store);
            let call = move |idem: &Transactional<$store>, n: u64| {
                let call = idem.call("charges.create").key(&n).fingerprint(&n);
                call.transact(move |mut tx, _| async move {
                    let insert = sqlx::query($insert).bind(i64::try_from(n).expect("small")).bind("ours");
                    insert.execute(&mut **tx).await?;
                    Ok::<_, sqlx::Error>("x".repeat(ANSWER))
                })
            };
            for n in 0..KEPT {
                call(&idem, REPLAYED + n).await.expect("an outcome").into_inner().expect("an answer");
            }
            let idem = Arc::new(idem);
            let again = Arc::clone(&idem);
            vec![
                Contender::new("bare transaction with one INSERT", move |n| {
                    let pool = own.clone();
                    async move {
                        let mut tx = pool.begin().await.expect("a transaction");
                        let insert = sqlx::query($insert).bind(i64::try_from(n).expect("small")).bind("bare");
                        insert.execute(&mut *tx).await.expect("an insertion");
                        tx.commit().await.expect("a commit");
                    }
                }),
                Contender::new("the same by `transact`", move |n| {
                    let idem = Arc::clone(&idem);
                    async move {
                        let outcome = call(&idem, OURS + n).await.expect("an outcome");
                        assert!(matches!(outcome, Outcome::Fresh(Ok(_))));
                    }
                }),
                Contender::new("its replay", move |n| {
                    let idem = Arc::clone(&again);
                    async move {
                        let outcome = call(&idem, REPLAYED + n % KEPT).await.expect("an outcome");
                        assert!(matches!(outcome, Outcome::Replayed(Ok(_))));
                    }
                }),
            ]
        }
    };
}
pub(super) use transactions;
