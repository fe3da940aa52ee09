#![deny(unused_variables)]

use idem::{Transactional, TransactionalStore, idempotent};

#[idempotent(key = id, ttl = "24h", engine = idem, operation = "ship", skip(idem), transaction = tx)]
async fn ship<S: TransactionalStore>(id: u32, idem: &Transactional<S>) -> Result<u32, idem::Error> {
    Ok(id)
}

fn main() {}
