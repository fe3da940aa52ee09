use idem::idempotent;

#[idempotent(key = id, tll = "24h", ttl = "24h")]
async fn ship(id: u32) -> Result<u32, idem::Error> {
    Ok(id)
}

fn main() {}
