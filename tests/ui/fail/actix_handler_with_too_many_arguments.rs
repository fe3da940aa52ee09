use actix_web::HttpResponse;
use actix_web::web::Data;
use idem::actix::idempotent;

#[idempotent(key = header, ttl = "24h", scope = shared)]
async fn create(
    _1: Data<u8>,
    _2: Data<u8>,
    _3: Data<u8>,
    _4: Data<u8>,
    _5: Data<u8>,
    _6: Data<u8>,
    _7: Data<u8>,
    _8: Data<u8>,
    _9: Data<u8>,
    _10: Data<u8>,
    _11: Data<u8>,
    _12: Data<u8>,
    _13: Data<u8>,
    _14: Data<u8>,
    _15: Data<u8>,
    _16: Data<u8>,
    _17: Data<u8>,
) -> HttpResponse {
    HttpResponse::Ok().finish()
}

fn main() {}
