use idem::idempotent;

#[idempotent(key = id, ttl = "24h")]
async fn ship(id: u32) -> Result<&'static str, idem::Error> {
    drop(id);
    Ok("shipped")
}

fn main() {}
