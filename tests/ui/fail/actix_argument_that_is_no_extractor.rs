use actix_web::HttpResponse;
use idem::actix::idempotent;

struct Charge;

#[idempotent(key = header, ttl = "24h", scope = shared)]
async fn create(charge: Charge, body: String) -> HttpResponse {
    drop(charge);
    HttpResponse::Ok().body(body)
}

fn main() {}
