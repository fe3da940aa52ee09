use idem::idempotent;

#[idempotent(key = id, ttl = "24h", engine = idem, skip(idem), transaction = "tx")]
async fn quoted(id: u32, idem: idem::Idempotency) -> Result<u32, idem::Error> {
    Ok(id)
}

#[idempotent(key = id, ttl = "24h", engine = idem, skip(idem), transaction = db.tx)]
async fn longer(id: u32, idem: idem::Idempotency) -> Result<u32, idem::Error> {
    Ok(id)
}

#[idempotent(key = id, ttl = "24h", engine = idem, skip(idem), transaction)]
async fn alone(id: u32, idem: idem::Idempotency) -> Result<u32, idem::Error> {
    Ok(id)
}

fn main() {}
