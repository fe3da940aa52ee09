use idem::axum::idempotent;

struct Service;

impl Service {
    #[idempotent(key = header, ttl = "24h", scope = shared, operation = "create")]
    async fn create(&self, body: String) -> String {
        body
    }
}

fn main() {
    let _ = Service.create(String::new());
}
