use idem::axum::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared, format = uuid7)]
async fn ship() -> &'static str {
    "shipped"
}

fn main() {}
