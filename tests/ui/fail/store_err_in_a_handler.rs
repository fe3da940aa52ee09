use idem::axum::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared, store_err)]
async fn create(body: String) -> String {
    body
}

fn main() {}
