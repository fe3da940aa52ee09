//! Plain functions of every shape, run twice.

#![deny(warnings)]
// A condition that holds is one, too.
#![allow(clippy::non_minimal_cfg)]

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::Display;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use idem::{Idempotency, MemoryStore, idempotent};
use serde::{Deserialize, Serialize};

/// Why it was not run.
#[derive(Debug)]
pub struct Error;

impl From<idem::Error> for Error {
    fn from(_: idem::Error) -> Self {
        Self
    }
}

type Answer<T = u32> = Result<T, Error>;

#[derive(Clone, Serialize, Deserialize)]
struct Message {
    id: String,
    parts: (u8, u8),
}

fn message() -> Message {
    Message { id: "m1".to_owned(), parts: (1, 2) }
}

/// Counts the runs; cannot be serialised.
#[derive(Clone, Default)]
struct Counter(Arc<AtomicU32>);

impl Counter {
    fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }
}

#[idempotent(key = msg.id, ttl = "24h", skip(counter))]
async fn owned(msg: Message, counter: Counter) -> Answer {
    let _ = msg.parts;
    Ok(counter.next())
}

#[idempotent(key = msg.id, ttl = "24h", scope = "shipping", engine = idem, skip(counter, idem))]
async fn borrowed(msg: &Message, counter: &Counter, idem: &Idempotency) -> Result<u32, Error> {
    let _ = (&msg.parts, idem);
    Ok(counter.next())
}

#[idempotent(key = id, ttl = "24h", skip(counter))]
async fn destructured(
    Message { mut id, parts: (a, _) }: Message,
    Counter(counter): Counter,
    _: u8,
) -> Result<String, Error> {
    id.push_str("!");
    Ok(format!("{id}{a}{}", counter.fetch_add(1, Ordering::SeqCst)))
}

#[idempotent(key = id, ttl = "24h", skip(counter))]
async fn by_reference(Message { ref id, .. }: Message, ref counter: Counter) -> Answer {
    let _ = id.len();
    Ok(counter.next())
}

#[idempotent(key = n, ttl = "24h", skip(counter))]
async fn mutable(mut n: u32, mut counter: Vec<Counter>) -> Answer {
    n += 1;
    Ok(n + counter.pop().map_or(0, |counter| counter.next()))
}

#[idempotent(key = "only", ttl = "24h")]
async fn no_arguments() -> Answer<()> {
    Ok(())
}

#[idempotent(key = id, ttl = "24h", operation = "generic", skip(counter, rest))]
async fn generic<'a, T, const N: usize>(
    id: T,
    rest: [u8; N],
    text: Cow<'a, str>,
    counter: &'a Counter,
) -> Answer
where
    T: Display + Serialize + idem::ToKey,
{
    let _ = (rest, text);
    Ok(counter.next())
}

#[idempotent(key = id.to_string(), ttl = "24h", operation = "impl", skip(counter))]
async fn impl_trait(
    id: impl Display + Serialize,
    counter: Counter,
) -> Answer<impl Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug> {
    let _ = id.to_string();
    Ok(counter.next())
}

#[idempotent(key = id, ttl = "24h", operation = "owned generic", skip(counter))]
async fn owned_generic<T: Send + Serialize + idem::ToKey + 'static>(id: T, counter: Counter) -> Answer {
    drop(id);
    Ok(counter.next())
}

#[idempotent(key = id, ttl = "24h", skip(counter), inline)]
async fn not_send(id: u8, counter: Rc<Cell<u32>>) -> Answer {
    tokio::task::yield_now().await;
    let _ = id;
    counter.set(counter.get() + 1);
    Ok(counter.get())
}

struct Service {
    name: String,
    idem: Idempotency,
    counter: Counter,
    calls: u32,
}

impl Service {
    #[idempotent(key = id, ttl = "24h", scope = self.name, operation = "by_ref", engine = self.idem)]
    async fn by_ref(&self, id: u32) -> Answer {
        let _ = id;
        Ok(self.counter.next())
    }

    #[idempotent(key = id, ttl = "24h", scope = self.name, operation = "by_mut", engine = self.idem)]
    async fn by_mut(&mut self, id: u32) -> Answer {
        let _ = id;
        self.calls += 1;
        Ok(self.counter.next())
    }

    #[idempotent(key = id, ttl = "24h", scope = self.name, operation = "by_arc", engine = self.idem)]
    async fn by_arc(self: Arc<Self>, id: u32) -> Answer {
        let _ = id;
        Ok(self.counter.next())
    }

    #[idempotent(key = id, ttl = "24h", operation = "by_value", engine = self.idem)]
    async fn by_value(self, id: u32) -> Answer {
        let _ = id;
        Ok(self.counter.next())
    }
}

#[async_trait]
trait Ship {
    async fn ship(&self, msg: Message, parts: (u8, u8)) -> Answer;

    #[idempotent(key = id, ttl = "24h", operation = "default")]
    async fn by_default(&self, id: u32) -> Answer
    where
        Self: Sync,
    {
        Ok(id)
    }

    async fn maybe(&mut self, msg: &Message) -> Answer<Option<u32>>;
}

#[async_trait]
impl Ship for Service {
    #[idempotent(key = (msg.id, a), ttl = "24h", scope = self.name, operation = "ship", engine = self.idem)]
    async fn ship(&self, msg: Message, (a, mut b): (u8, u8)) -> Answer {
        b += a;
        let _ = (msg, b);
        if self.name.is_empty() {
            return Err(Error);
        }
        Ok(self.counter.next())
    }

    #[idempotent(key = msg.id, ttl = "24h", operation = "maybe", engine = self.idem)]
    async fn maybe(&mut self, msg: &Message) -> Answer<Option<u32>> {
        let _ = &msg.parts;
        self.calls += 1;
        Ok(Some(self.calls).filter(|_| false))
    }
}

macro_rules! consumers {
    ($($name:ident($arg:ident: $ty:ty) -> $out:ty { $key:expr })*) => {
        $(
            #[idempotent(key = $key, ttl = "24h", skip(counter))]
            async fn $name($arg: $ty, counter: Counter) -> $out {
                let _ = $arg;
                Ok(counter.next())
            }
        )*
    };
}

consumers! {
    from_macro(m: Message) -> Answer<u32> { m.id }
    from_macro_too(m: u64) -> Result<u32, Error> { m }
}

#[idempotent(
    key = id, ttl = "7d", scope = shared, operation = OPERATION, fingerprint = (id, "v2"), lease = LEASE,
    max_run = "1h30m", in_flight = wait("250ms"), expired = reject, tombstone_ttl = "400d", on_crash = retry,
    on_disconnect = finish, on_store_error = run, missing = derive, rebind, detached,
)]
async fn everything(id: Option<u32>, counter: Counter) -> Answer {
    let _ = id;
    Ok(counter.next())
}

const OPERATION: &str = "everything";
const LEASE: std::time::Duration = std::time::Duration::from_secs(10);

#[tracing::instrument(skip(counter), err)]
#[idempotent(key = id, ttl = "24h", skip(counter))]
async fn instrument_above(id: u32, counter: Counter) -> Result<u32, idem::Error> {
    let _ = id;
    Ok(counter.next())
}

#[idempotent(key = id, ttl = "24h", skip(counter))]
#[tracing::instrument(skip(counter), fields(id))]
async fn instrument_below(id: u32, counter: Counter) -> Result<u32, idem::Error> {
    let _ = id;
    Ok(counter.next())
}

#[idempotent(key = id, ttl = "24h", skip(counter))]
async fn conditional(
    id: u32,
    #[cfg(any())] absent: Missing,
    #[cfg(all())] present: u8,
    counter: Counter,
) -> Answer {
    let _ = (id, present);
    Ok(counter.next())
}

/// Documented.
#[must_use]
#[inline]
#[allow(clippy::unused_async)]
#[idempotent(key = r#type, ttl = "24h")]
pub async fn r#match(r#type: u32) -> Answer {
    #![allow(unused_variables)]
    let unused = r#type;
    Ok(1)
}

macro_rules! same {
    ($counter:expr, $first:expr, $second:expr) => {{
        let before = $counter.0.load(Ordering::SeqCst);
        assert_eq!($first.await.unwrap(), $second.await.unwrap());
        assert_eq!($counter.0.load(Ordering::SeqCst), before + 1, "ran once");
    }};
}

#[tokio::test]
async fn each_of_them_runs_once() {
    super::set_global();
    let idem = Idempotency::new(MemoryStore::new());
    let c = Counter::default();
    let m = message();
    same!(c, owned(m.clone(), c.clone()), owned(m.clone(), c.clone()));
    same!(c, borrowed(&m, &c, &idem), borrowed(&m, &c, &idem));
    same!(c, destructured(m.clone(), c.clone(), 1), destructured(m.clone(), c.clone(), 1));
    assert!(destructured(m.clone(), c.clone(), 2).await.is_err(), "`_` counts");
    same!(c, by_reference(m.clone(), c.clone()), by_reference(m.clone(), c.clone()));
    same!(c, mutable(1, vec![c.clone()]), mutable(1, vec![c.clone()]));
    assert!(no_arguments().await.is_ok() && no_arguments().await.is_ok());
    same!(c, generic("a", [1, 2], "x".into(), &c), generic("a", [1, 2], "x".into(), &c));
    same!(c, impl_trait("a", c.clone()), impl_trait("a", c.clone()));
    same!(c, owned_generic("a", c.clone()), owned_generic("a", c.clone()));
    let calls = Rc::new(Cell::new(0));
    assert_eq!(not_send(1, calls.clone()).await.unwrap(), not_send(1, calls.clone()).await.unwrap());
    assert_eq!(calls.get(), 1);

    let service = || Service { name: "s".to_owned(), idem: idem.clone(), counter: c.clone(), calls: 0 };
    let mut s = service();
    same!(c, s.by_ref(1), s.by_ref(1));
    same!(c, s.by_mut(1), s.by_mut(1));
    assert_eq!(s.calls, 1);
    same!(c, Arc::new(service()).by_arc(1), Arc::new(service()).by_arc(1));
    same!(c, service().by_value(1), service().by_value(1));
    same!(c, s.ship(m.clone(), (1, 2)), s.ship(m.clone(), (1, 2)));
    assert!(s.ship(m.clone(), (1, 3)).await.is_err(), "patterns are taken apart after the fingerprint");
    assert_eq!(s.by_default(3).await.unwrap(), 3);
    assert_eq!(s.maybe(&m).await.unwrap(), s.maybe(&m).await.unwrap());
    assert_eq!(s.calls, 2);

    same!(c, from_macro(m.clone(), c.clone()), from_macro(m.clone(), c.clone()));
    same!(c, from_macro_too(1, c.clone()), from_macro_too(1, c.clone()));
    same!(c, everything(None, c.clone()), everything(None, c.clone()));
    same!(c, instrument_above(1, c.clone()), instrument_above(1, c.clone()));
    same!(c, instrument_below(1, c.clone()), instrument_below(1, c.clone()));
    same!(c, conditional(1, 1, c.clone()), conditional(1, 1, c.clone()));
    assert!(r#match(1).await.is_ok() && r#match(1).await.is_ok());
}
