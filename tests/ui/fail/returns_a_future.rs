use idem::idempotent;

#[idempotent(key = id, ttl = "24h")]
fn ship(id: u32) -> impl Future<Output = Result<u32, idem::Error>> {
    async move { Ok(id) }
}

fn main() {}
