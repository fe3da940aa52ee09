use idem::axum::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared, fingerprint_headers = "X-Version")]
async fn ship() -> &'static str {
    "shipped"
}

fn main() {}
