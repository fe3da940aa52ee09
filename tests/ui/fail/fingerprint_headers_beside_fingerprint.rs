use axum::extract::Path;
use idem::axum::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared, fingerprint = id, fingerprint_headers = ["X-Version"])]
async fn ship(Path(id): Path<u32>) -> String {
    id.to_string()
}

fn main() {}
