use idem::idempotent;

struct Service;

#[idempotent(key = id, ttl = "24h")]
impl Service {
    async fn ship(&self, id: u32) -> Result<u32, idem::Error> {
        Ok(id)
    }
}

fn main() {
    let _ = Service.ship(1);
}
