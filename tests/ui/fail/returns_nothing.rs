use idem::idempotent;

#[idempotent(key = id, ttl = "24h")]
async fn ship(id: u32) {
    drop(id);
}

fn main() {}
