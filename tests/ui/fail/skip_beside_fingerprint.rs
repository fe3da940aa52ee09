use idem::idempotent;

#[idempotent(key = id, ttl = "24h", skip(id), fingerprint = (id, 1))]
async fn ship(id: u32) -> Result<u32, idem::Error> {
    Ok(id)
}

fn main() {}
