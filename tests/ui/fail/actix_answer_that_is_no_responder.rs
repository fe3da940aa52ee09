use idem::actix::idempotent;

struct Charge;

#[idempotent(key = header, ttl = "24h", scope = shared)]
async fn create(body: String) -> Charge {
    drop(body);
    Charge
}

fn main() {}
