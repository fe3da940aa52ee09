use idem::idempotent;

#[idempotent(key = id, ttl = "999999999999999999w")]
async fn ship(id: u32) -> Result<u32, idem::Error> {
    Ok(id)
}

fn main() {}
