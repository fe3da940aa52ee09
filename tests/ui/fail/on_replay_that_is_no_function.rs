use idem::axum::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared, on_replay = count())]
async fn ship() -> &'static str {
    "shipped"
}

fn count() -> u32 {
    1
}

fn main() {}
