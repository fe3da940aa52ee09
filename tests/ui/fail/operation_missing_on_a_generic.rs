use idem::idempotent;

#[idempotent(key = id, ttl = "24h")]
async fn ship<T: idem::ToKey + serde::Serialize>(id: T) -> Result<u32, idem::Error> {
    drop(id);
    Ok(1)
}

fn main() {}
