use idem::axum::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared)]
async fn create(#[cfg(all())] body: String) -> String {
    body
}

fn main() {}
