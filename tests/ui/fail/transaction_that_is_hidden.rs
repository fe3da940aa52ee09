use idem::{Transactional, TransactionalStore, idempotent};

fn begin() -> u32 {
    1
}

#[idempotent(key = id, ttl = "24h", engine = idem, operation = "a", skip(tx, idem), transaction = tx)]
async fn argument<S: TransactionalStore>(id: u32, tx: u32, idem: &Transactional<S>) -> Result<u32, idem::Error> {
    Ok(id + tx)
}

#[idempotent(key = id, ttl = "24h", engine = idem, operation = "b", skip(idem), transaction = tx)]
async fn variable<S: TransactionalStore>(id: u32, idem: &Transactional<S>) -> Result<u32, idem::Error> {
    if id > 0 {
        let (mut tx, _rx) = (begin(), ());
        tx += id;
        return Ok(tx);
    }
    let Some(tx) = Some(begin()) else { return Ok(id) };
    Ok(tx)
}

fn main() {}
