use idem::axum::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared, mismatch_status = 500)]
async fn ship() -> &'static str {
    "shipped"
}

fn main() {}
