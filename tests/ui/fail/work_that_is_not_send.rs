use idem::idempotent;

#[idempotent(key = id, ttl = "24h", skip(rc))]
async fn ship(id: u32, rc: std::rc::Rc<u32>) -> Result<u32, idem::Error> {
    Ok(id + *rc)
}

fn main() {}
