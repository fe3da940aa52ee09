use idem::axum::idempotent;

struct Service;

#[async_trait::async_trait]
trait Create {
    async fn create(body: String) -> String;
}

#[async_trait::async_trait]
impl Create for Service {
    #[idempotent(key = header, ttl = "24h", scope = shared, operation = "create")]
    async fn create(body: String) -> String {
        body
    }
}

fn main() {
    let _ = Service::create(String::new());
}
