use idem::idempotent;

#[idempotent(key = id, ttl = "24h", transaction = tx)]
async fn ship(id: u32) -> Result<u32, idem::Error> {
    let _ = tx;
    Ok(id)
}

fn main() {}
