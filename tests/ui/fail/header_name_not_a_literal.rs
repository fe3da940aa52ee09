use idem::axum::idempotent;

#[idempotent(key = header(NAME), ttl = "24h", scope = shared)]
async fn create(body: String) -> String {
    body
}

fn main() {}
