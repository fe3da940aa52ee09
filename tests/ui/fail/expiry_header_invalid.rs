use idem::axum::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared, expiry_header = "X Expires")]
async fn ship() -> &'static str {
    "shipped"
}

#[idempotent(key = header, ttl = "24h", scope = shared, expiry_header = true)]
async fn pack() -> &'static str {
    "packed"
}

fn main() {}
