use idem::idempotent;

struct Service;

impl Service {
    #[idempotent(key = id, ttl = "24h")]
    async fn ship(&self, id: u32) -> Result<u32, idem::Error> {
        Ok(id)
    }
}

fn main() {
    let _ = Service.ship(1);
}
