use idem::idempotent;

#[idempotent(key = id, ttl = id)]
async fn ship(id: u32) -> Result<u32, idem::Error> {
    Ok(id)
}

fn main() {}
