//! Answers that are encrypted before the transaction has them.

macro_rules! tests {
    () => {
        mod encrypted {
            use idem::core::join::Joined;
            use idem::{Keyring, Outcome, Transactional};

            use super::{Place, Store};

            /// What is replayed here was stored encrypted.
            fn engine(place: &Place) -> Transactional<Store> {
                let keyring = Keyring::new(1, [1; 32]).unwrap().refuse_plain();
                let store = Store::clone(place.idem.store());
                Transactional::builder(store).encrypt_answers(keyring).build().unwrap()
            }

            #[tokio::test]
            async fn what_is_committed_with_its_writes_is_encrypted() {
                let place = Place::new().await;
                let idem = engine(&place);
                for replayed in [false, true] {
                    let call = idem.call("enter").key("k").fingerprint("rent");
                    let outcome = call.transact(async |_, _| Ok::<_, String>(17)).await.unwrap();
                    let expected = if replayed { Outcome::Replayed(Ok(17)) } else { Outcome::Fresh(Ok(17)) };
                    assert_eq!(outcome, expected);
                }
                let without = place.idem.call("enter").key("k").fingerprint("rent");
                let error = without.transact(async |_, _| Ok::<u64, String>(18)).await.unwrap_err();
                assert_eq!(error.code(), "idempotency_undecodable");
            }

            #[tokio::test]
            async fn what_is_completed_in_the_callers_transaction_is_encrypted() {
                let place = Place::new().await;
                let idem = engine(&place);
                let call = |idem: &Transactional<Store>| idem.call("enter").key("k").fingerprint("rent");
                let mut tx = place.pool.begin().await.unwrap();
                let Joined::Granted(part) = call(&idem).claim_in::<u64>(&mut tx).await.unwrap() else {
                    panic!("the key is new")
                };
                part.complete(&mut tx, &17).await.unwrap();
                tx.commit().await.unwrap();
                let mut tx = place.pool.begin().await.unwrap();
                let joined = call(&idem).claim_in::<u64>(&mut tx).await.unwrap();
                assert!(matches!(joined, Joined::Replayed(17)));
                let error = call(&place.idem).claim_in::<u64>(&mut tx).await.unwrap_err();
                assert_eq!(error.code(), "idempotency_undecodable");
            }
        }
    };
}

pub(crate) use tests;
