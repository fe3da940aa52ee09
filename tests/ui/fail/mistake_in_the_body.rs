use idem::idempotent;

#[idempotent(key = id, ttl = "24h")]
async fn ship(id: u32) -> Result<u32, idem::Error> {
    let doubled: u64 = id;
    Ok(doubled)
}

fn main() {}
