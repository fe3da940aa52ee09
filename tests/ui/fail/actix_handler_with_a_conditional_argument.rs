use actix_web::{HttpResponse, web};
use idem::actix::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared)]
async fn create(#[cfg(unix)] _body: web::Bytes) -> HttpResponse {
    HttpResponse::Ok().finish()
}

fn main() {}
