use idem::idempotent;

struct Failure(u32);

impl From<idem::Error> for Failure {
    fn from(_: idem::Error) -> Self {
        Self(0)
    }
}

#[idempotent(key = id, ttl = "24h", store_err)]
async fn ship(id: u32) -> Result<u32, Failure> {
    Err(Failure(id))
}

fn main() {
    let _ = |failure: Failure| failure.0;
}
