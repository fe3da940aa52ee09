use idem::idempotent;

trait Ship {
    #[idempotent(key = id, ttl = "24h")]
    fn ship(&self, id: u32) -> Result<u32, idem::Error>;
}

fn main() {
    let _ = <() as Ship>::ship;
}

impl Ship for () {
    fn ship(&self, id: u32) -> Result<u32, idem::Error> {
        Ok(id)
    }
}
