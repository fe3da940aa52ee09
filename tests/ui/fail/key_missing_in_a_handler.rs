use idem::axum::idempotent;

#[idempotent(ttl = "24h", scope = shared)]
async fn create(body: String) -> String {
    body
}

fn main() {}
