use idem::axum::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared, skip(body))]
async fn create(body: String) -> String {
    body
}

fn main() {}
