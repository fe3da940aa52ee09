use idem::idempotent;

#[idempotent(key = id, ttl = "24h")]
struct Order {
    id: u32,
}

fn main() {
    let _ = Order { id: 1 }.id;
}
