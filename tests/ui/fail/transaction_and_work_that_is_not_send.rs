use std::rc::Rc;

use idem::{Transactional, TransactionalStore, idempotent};

#[idempotent(key = id, ttl = "24h", engine = idem, operation = "ship", skip(idem), transaction = tx)]
async fn ship<S: TransactionalStore + 'static>(id: u32, idem: Transactional<S>) -> Result<u32, idem::Error> {
    let rc = Rc::new(id);
    let _ = tx;
    tokio::task::yield_now().await;
    Ok(*rc)
}

fn main() {}
