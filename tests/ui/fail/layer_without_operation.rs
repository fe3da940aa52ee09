use axum::Router;
use idem::tower::IdempotencyLayer;
use idem::{Idempotency, MemoryStore};

fn main() {
    let idem = Idempotency::new(MemoryStore::new());
    let layer = IdempotencyLayer::new(&idem).shared();
    let _: Router = Router::new().layer(layer);
}
