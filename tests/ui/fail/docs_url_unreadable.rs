use idem::axum::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared, docs_url = "see the wiki")]
async fn ship() -> &'static str {
    "shipped"
}

fn main() {}
