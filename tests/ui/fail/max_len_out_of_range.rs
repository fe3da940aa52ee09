use idem::axum::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared, max_len = 256)]
async fn ship() -> &'static str {
    "shipped"
}

fn main() {}
