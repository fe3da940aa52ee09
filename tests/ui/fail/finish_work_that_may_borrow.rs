use idem::idempotent;

#[idempotent(key = id, ttl = "24h", operation = "ship", on_disconnect = finish)]
async fn ship(id: impl idem::ToKey + serde::Serialize) -> Result<u32, idem::Error> {
    drop(id);
    Ok(1)
}

fn main() {}
