use idem::idempotent;

#[idempotent(key = id, ttl = "24h", skip(idd))]
async fn ship(id: u32, order: u32) -> Result<u32, idem::Error> {
    Ok(id + order)
}

fn main() {}
