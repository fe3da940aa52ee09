use idem::idempotent;

#[idempotent(key = id, ttl = "24h", replay_header = "X-Replayed")]
async fn ship(id: u32) -> Result<u32, idem::Error> {
    Ok(id)
}

fn main() {}
