//! What is `InnoDB`'s own: locks between records, and deadlocks that end a whole transaction.

use std::sync::Arc;

use idem_core::error::ErrorKind;
use tokio::sync::{Barrier, oneshot};

use super::{Place, call, fail, fresh, pay, write};

#[tokio::test]
async fn a_key_that_is_taken_over_locks_none_of_its_neighbours() {
    let place = Place::new().await;
    let (idem, other) = (place.engine().await, place.engine().await);
    fresh(call(&idem, "failed", "payload").transact(fail).await).unwrap_err();
    let (begun, has_begun) = oneshot::channel();
    let (go_on, goes_on) = oneshot::channel::<()>();
    let slow = tokio::spawn(call(&idem, "failed", "payload").transact(|mut tx, _| async move {
        write(&mut tx, "slow").await?;
        begun.send(()).unwrap();
        goes_on.await.unwrap();
        Ok::<_, String>(String::new())
    }));
    has_begun.await.unwrap();
    for n in 0..10 {
        for (process, idem) in [&idem, &other].into_iter().enumerate() {
            let key = format!("new {n} {process}");
            fresh(call(idem, &key, "payload").run(|_| async { Ok(String::new()) }).await).unwrap();
            let joined = call(idem, &format!("transacted {key}"), "payload");
            fresh(joined.transact(|_, _| async { Ok::<_, String>(String::new()) }).await).unwrap();
        }
    }
    go_on.send(()).unwrap();
    fresh(slow.await.unwrap()).unwrap();
}

#[tokio::test]
async fn work_that_goes_on_after_a_deadlock_leaves_nothing() {
    let place = Place::new().await;
    for prepare in [
        "CREATE TABLE accounts (id INT PRIMARY KEY, balance INT NOT NULL)",
        "INSERT INTO accounts VALUES (1, 0), (2, 0)",
    ] {
        sqlx::query(prepare).execute(&place.pool).await.unwrap();
    }
    let idem = place.engine().await;
    let both = Arc::new(Barrier::new(2));
    let calls = [[1, 2], [2, 1]].map(|[first, then]| {
        let both = Arc::clone(&both);
        tokio::spawn(call(&idem, &format!("k{first}"), "payload").transact(move |mut tx, _| async move {
            let add =
                |id: i32| sqlx::query("UPDATE accounts SET balance = balance + 1 WHERE id = ?").bind(id);
            add(first).execute(&mut **tx).await.unwrap();
            both.wait().await;
            if add(then).execute(&mut **tx).await.is_err() {
                add(then).execute(&mut **tx).await.unwrap();
            }
            Ok::<_, String>(String::new())
        }))
    });
    let mut lost = 0;
    for call in calls {
        if let Err(error) = call.await.unwrap() {
            assert_eq!(error.kind(), ErrorKind::LeaseLost);
            lost += 1;
        }
    }
    assert_eq!(lost, 1);
    let sum = sqlx::query_scalar::<_, i64>("SELECT CAST(SUM(balance) AS SIGNED) FROM accounts");
    assert_eq!(sum.fetch_one(&place.pool).await.unwrap(), 2);
    assert_eq!(fresh(call(&idem, "after", "payload").transact(pay).await).unwrap(), "attempt 1");
    assert_eq!(place.entries().await, ["paid"]);
}
