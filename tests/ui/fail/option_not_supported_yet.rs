use idem::idempotent;

#[idempotent(key = id, ttl = "24h", max_len = 64)]
async fn ship(id: u32) -> Result<u32, idem::Error> {
    Ok(id)
}

fn main() {}
