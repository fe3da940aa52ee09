//! Writers: tasks that claim and complete while a test does something to their store.

use std::collections::BTreeSet;
use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::ready;
use futures_util::stream;
use idem_core::owner::Owner;
use idem_core::store::{Claimed, Fenced, Store, StoreError};
use tokio::sync::Barrier;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::claims::{DAY, answer, claim, id};

const TASKS: usize = 8;
/// How many keys each task has written before anything is done to the store.
const BEFORE: u64 = 20;
/// Every so many keys one is claimed and left so.
const HELD: u64 = 4;
/// How many records are looked at together afterwards.
const AT_ONCE: usize = 64;

/// Tasks that write until they are told to stop. Each key is claimed once.
#[derive(Debug)]
pub struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Written>>,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Written {
    /// Keys whose answer, which is the key, was acknowledged.
    pub answered: Vec<String>,
    /// Keys whose claim was acknowledged and is still held, and by whom.
    pub held: Vec<(String, Owner)>,
    /// Keys whose claim was acknowledged, and was not there when it was to be completed.
    pub lost: Vec<String>,
    /// What the store said where it could not say.
    pub errors: BTreeSet<String>,
}

impl Writers {
    /// Starts them on clones of a store, and waits until each has written some keys, which begin with a name.
    pub async fn start<S: Store + Clone>(store: &S, name: &str) -> Self {
        let (stop, gate) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(TASKS + 1)));
        let tasks = (0..TASKS)
            .map(|task| {
                let (store, name) = (store.clone(), format!("{name}-{task}"));
                let (stop, gate) = (Arc::clone(&stop), Arc::clone(&gate));
                tokio::spawn(async move {
                    let mut written = Written::default();
                    for n in 0_u64.. {
                        written.write(&store, format!("{name}-{n}"), n % HELD == 0).await;
                        if n == BEFORE {
                            gate.wait().await;
                        }
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        if n > BEFORE {
                            // The servers, and those who watch over them, are on the same cores.
                            sleep(Duration::from_millis(1)).await;
                        }
                    }
                    written
                })
            })
            .collect();
        gate.wait().await;
        Self { stop, tasks }
    }

    /// Lets each end what it is at.
    ///
    /// # Panics
    ///
    /// When one got an answer that it should not.
    pub async fn stop(self) -> Written {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Written::default();
        for task in self.tasks {
            let written = task.await.expect("a writer that ends well");
            all.answered.extend(written.answered);
            all.held.extend(written.held);
            all.lost.extend(written.lost);
            all.errors.extend(written.errors);
        }
        all
    }
}

impl Written {
    async fn write<S: Store>(&mut self, store: &S, key: String, hold: bool) {
        let (id, claim) = (id(&key), claim("payload"));
        let acknowledged = match store.claim(&id, &claim).await {
            Ok(Claimed::Granted { attempt: 1 }) => true,
            // It may have been made all the same.
            Err(error) => {
                self.errors.insert(full_text(&error));
                false
            }
            Ok(other) => panic!("{key}, which nobody else claims: {other:?}"),
        };
        if hold {
            if acknowledged {
                self.held.push((key, claim.owner));
            }
            return;
        }
        match store.complete(&id, claim.owner, &answer(&key), DAY).await {
            Ok(Fenced::Held) => self.answered.push(key),
            Ok(Fenced::Lost) if acknowledged => self.lost.push(key),
            Ok(Fenced::Lost) => {}
            Err(error) => {
                self.errors.insert(full_text(&error));
            }
        }
    }

    /// Of the answers that were acknowledged, those that the store does not have.
    ///
    /// # Panics
    ///
    /// When the store cannot say, or has another answer.
    pub async fn answers_missing_in<S: Store>(&self, store: &S) -> Vec<String> {
        let missing = stream::iter(&self.answered).map(async |key| {
            let record = store.look_up(&id(key)).await.expect("an answer");
            match record.and_then(|record| record.answer) {
                Some(found) => {
                    assert_eq!(found, answer(key));
                    None
                }
                None => Some(key.clone()),
            }
        });
        missing.buffer_unordered(AT_ONCE).filter_map(ready).collect().await
    }

    /// Completes what is held, and tells the keys where that was too late: their claims are not there.
    ///
    /// # Panics
    ///
    /// When the store cannot say.
    pub async fn claims_missing_in<S: Store>(&self, store: &S) -> Vec<String> {
        let missing = stream::iter(&self.held).map(async |(key, owner)| {
            let fenced = store.complete(&id(key), *owner, &answer(key), DAY).await.expect("an answer");
            (fenced == Fenced::Lost).then(|| key.clone())
        });
        let missing = missing.buffer_unordered(AT_ONCE).filter_map(ready);
        stream::iter(self.lost.clone()).chain(missing).collect().await
    }
}

/// What an error says, with its cause.
pub fn full_text(error: &StoreError) -> String {
    format!("{error}: {}", error.source().map(ToString::to_string).unwrap_or_default())
}
