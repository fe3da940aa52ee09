//! Processes that are killed in the middle of their writing.

use idem_core::store::{Fenced, Store};

use super::claims::{DAY, answer, claim, granted, id};
use super::writers::Written;
use crate::play::{Process, hear_line, say};

const TASKS: usize = 32;

/// Claims and completes with many tasks, and says each key whose completion was acknowledged.
///
/// # Panics
///
/// When anything fails.
pub async fn write_for_ever<S: Store + Clone>(store: &S) {
    let name = hear_line().expect("a name");
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let (store, name) = (store.clone(), name.clone());
            tokio::spawn(async move {
                for n in 0_u64.. {
                    let key = format!("{name}-{task}-{n}");
                    let (id, claim) = (id(&key), claim("payload"));
                    granted(&store, &id, &claim).await;
                    let fenced = store.complete(&id, claim.owner, &answer(&key), DAY).await;
                    assert_eq!(fenced.expect("a completion"), Fenced::Held);
                    say(&key);
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task that writes");
    }
}

/// Kills a process, which plays `write`, when it has said so many keys; tells them. They begin with a name.
pub fn killed_when_it_has_written(count: usize, place: &str, name: &str) -> Written {
    let mut process = Process::start("write", place);
    process.tell(name);
    let answered = (0..count).map(|_| process.hear()).collect();
    process.kill();
    Written { answered, ..Written::default() }
}
