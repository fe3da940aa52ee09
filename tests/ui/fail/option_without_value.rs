use idem::idempotent;

#[idempotent(key = , ttl = "24h", scope)]
async fn ship(id: u32) -> Result<u32, idem::Error> {
    Ok(id)
}

fn main() {}
