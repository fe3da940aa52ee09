use idem::{Transactional, TransactionalStore, idempotent};

#[idempotent(
    key = id, ttl = "24h", engine = idem, operation = "ship", skip(idem), transaction = tx,
    on_crash = reject, on_store_error = run
)]
async fn ship<S: TransactionalStore>(id: u32, idem: &Transactional<S>) -> Result<u32, idem::Error> {
    let _ = tx;
    Ok(id)
}

fn main() {}
