use actix_web::HttpResponse;
use idem::actix::idempotent;

struct Orders;

impl Orders {
    #[idempotent(key = header, ttl = "24h", scope = shared, operation = "orders.create")]
    async fn create(self) -> HttpResponse {
        HttpResponse::Ok().finish()
    }
}

fn main() {}
