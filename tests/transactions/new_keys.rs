//! The limit on new keys, where the claim is part of a transaction.

macro_rules! tests {
    () => {
        mod new_keys {
            use std::time::Duration;

            use idem::{ErrorKind, Outcome, Transactional};

            use super::{Place, Store};

            #[tokio::test]
            async fn beyond_the_limit_no_transaction_claims_a_new_key_and_live_keys_still_replay() {
                let place = Place::new().await;
                let store = Store::clone(place.idem.store());
                let hour = Duration::from_hours(1);
                let idem = Transactional::builder(store).max_new_keys(2, hour).build().unwrap();
                let call = |key: &str| idem.call("enter").key(key).fingerprint("rent");
                let enter = async |key: &str| call(key).transact(async |_, _| Ok::<_, String>(17)).await;
                assert_eq!(enter("k-1").await.unwrap(), Outcome::Fresh(Ok(17)));
                let mut tx = place.pool.begin().await.unwrap();
                assert!(call("k-2").claim_in::<u64>(&mut tx).await.is_ok());
                tx.rollback().await.unwrap();
                for key in ["k-2", "k-3"] {
                    assert_eq!(enter(key).await.unwrap_err().kind(), ErrorKind::TooManyKeys);
                    let mut tx = place.pool.begin().await.unwrap();
                    let refused = call(key).claim_in::<u64>(&mut tx).await.unwrap_err();
                    assert_eq!(refused.kind(), ErrorKind::TooManyKeys);
                }
                assert_eq!(enter("k-1").await.unwrap(), Outcome::Replayed(Ok(17)));
            }
        }
    };
}

pub(crate) use tests;
