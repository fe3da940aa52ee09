use idem::{Idempotency, idempotent};

fn write(_: &mut sqlx::SqliteConnection) {}

#[idempotent(key = id, ttl = "24h", engine = idem, skip(idem), transaction = tx)]
async fn ship(id: u32, idem: Idempotency) -> Result<u32, idem::Error> {
    write(&mut **tx);
    Ok(id)
}

struct App {
    idem: Idempotency,
}

#[idem::axum::idempotent(key = header, ttl = "24h", scope = shared, engine = app.idem, transaction = tx)]
async fn handler(axum::extract::State(app): axum::extract::State<std::sync::Arc<App>>) -> &'static str {
    write(&mut **tx);
    "shipped"
}

fn main() {}
