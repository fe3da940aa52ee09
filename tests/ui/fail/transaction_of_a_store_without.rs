use idem::{MemoryStore, Transactional, idempotent};

#[idempotent(key = id, ttl = "24h", engine = idem, skip(idem), transaction = tx)]
async fn ship(id: u32, idem: &Transactional<MemoryStore>) -> Result<u32, idem::Error> {
    let _ = tx;
    Ok(id)
}

fn main() {
    let _ = Transactional::new(MemoryStore::new());
}
