#![deny(deprecated)]

use idem::actix::idempotent;

#[idempotent(key = header, ttl = "24h")]
async fn create(body: String) -> String {
    body
}

fn main() {}
