use axum::extract::Path;
use idem::axum::idempotent;

#[idempotent(key = id, ttl = "24h", scope = shared, format = uuid, max_len = 64)]
async fn ship(Path(id): Path<u32>) -> String {
    id.to_string()
}

fn main() {}
