use idem::idempotent;

#[idempotent(key = id, ttl = "24h", mismatch_status = 409, echo_key)]
async fn ship(id: u32) -> Result<u32, idem::Error> {
    Ok(id)
}

fn main() {}
