use idem::idempotent;

struct Pool;

#[idempotent(key = id, ttl = "24h")]
async fn ship(id: u32, pool: Pool, idem: &idem::Idempotency) -> Result<u32, idem::Error> {
    let _ = (pool, idem);
    Ok(id)
}

fn main() {
    let _ = Pool;
}
