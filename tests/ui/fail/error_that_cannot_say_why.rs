use idem::idempotent;

struct Failure(u32);

#[idempotent(key = id, ttl = "24h")]
async fn ship(id: u32) -> Result<u32, Failure> {
    Err(Failure(id))
}

fn main() {
    let _ = |failure: Failure| failure.0;
}
