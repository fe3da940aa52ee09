use idem::axum::idempotent;

#[idempotent(header = "X-Request-Key", ttl = "24h", scope = shared)]
async fn ship() -> &'static str {
    "shipped"
}

fn main() {}
