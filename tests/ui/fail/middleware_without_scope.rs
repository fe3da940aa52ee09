use actix_web::App;
use idem::actix::IdempotencyMiddleware;
use idem::{Idempotency, MemoryStore};

fn main() {
    let idem = Idempotency::new(MemoryStore::new());
    let once = IdempotencyMiddleware::new(&idem).routes("billing");
    let _ = App::new().wrap(once);
}
