use idem::idempotent;

struct Receipt(u32);

#[idempotent(key = id, ttl = "24h")]
async fn ship(id: u32) -> Result<Receipt, idem::Error> {
    Ok(Receipt(id))
}

fn main() {
    let _ = |receipt: Receipt| receipt.0;
}
