use idem::idempotent;

// The function is still there, so that nobody else complains.
#[idempotent(
    key = header,
    tll = "24h",
    lease = "0s",
    on_crash = explode,
    skip(pool),
    fingerprint = raw,
    rebind = true,
    42,
    inline,
    detached,
    store_if = |_| true,
)]
const fn ship<T>(id: T) -> Result<T, idem::Error> {
    Ok(id)
}

fn main() {
    let _ = ship(1);
}
