use idem::idempotent;

#[idempotent(42, key = id, ttl = "24h")]
async fn ship(id: u32) -> Result<u32, idem::Error> {
    Ok(id)
}

fn main() {}
