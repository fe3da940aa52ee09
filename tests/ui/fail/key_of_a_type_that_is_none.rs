use idem::idempotent;

#[idempotent(key = ratio, ttl = "24h", fingerprint = none)]
async fn ship(ratio: f64) -> Result<f64, idem::Error> {
    Ok(ratio)
}

fn main() {}
