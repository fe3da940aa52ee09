use idem::idempotent;

#[idempotent(key = id, ttl = "1.5h")]
async fn ship(id: u32) -> Result<u32, idem::Error> {
    Ok(id)
}

fn main() {}
