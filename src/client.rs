//! For those who send: one key for each request, and retries that keep it.
//!
//! Two layers, which do not know each other's business. A [`KeyedRequest`] is a request with its idempotency key: it is
//! made once, before anything is sent, and it can be sent any number of times. A [`Sender`] sends it until it is answered,
//! and never makes a key: a retry layer that did would turn each retry into another request. Whoever has a retry layer of
//! their own uses the first without the second, by [`KeyedRequest::to_request`].
//!
//! ```no_run
//! use idem::client::{KeyedRequest, Sender};
//!
//! # async fn save(_: u64, _: &str) {}
//! # async fn example(order: u64) -> Result<(), Box<dyn std::error::Error>> {
//! let http = reqwest::Client::new();
//! let request = http
//!     .post("http://127.0.0.1:3000/charges")
//!     .bearer_auth("alice")
//!     .header("Content-Type", "application/json")
//!     .body(r#"{"amount": 500000, "currency": "vnd", "source": "tok_visa"}"#)
//!     .build()?;
//! let request = KeyedRequest::new(request)?;
//! // Beside what it is about, before it is sent: a process that starts again goes on with the same key.
//! save(order, request.key()).await;
//! let response = Sender::new(http).send(&request).await?;
//! println!("{}, a replay: {}", response.status(), response.is_replayed());
//! # Ok(())
//! # }
//! ```
//!
//! # What is retried
//!
//! | what came back | sent again |
//! |---|---|
//! | nothing: no connection, a time-out, an answer that breaks off | yes |
//! | 408, 425, 429, 5xx | yes, unless it is a problem document with `"retryable": false` |
//! | 409 | if a problem document says `"retryable": true`, as idem's does while the first request runs; without one that says, if there is a `Retry-After` |
//! | whatever is marked as a replay | no: it is stored, and would be the same again |
//! | everything else, 422 above all | no |
//!
//! Between two attempts it waits, longer each time and never quite as long as others do, and at least as long as
//! `Retry-After` asks; see [`Retries`].
//!
//! # Before a crash of your own
//!
//! A key that only lives in memory protects from a bad network, not from the end of the process that made it: started
//! again, it would make another key, and the request would be carried out twice. So save the key together with what it is
//! about (the order, the row of an outbox) *before* the first attempt, and use
//! [`KeyedRequest::with_key`] from then on, with the very same body. A key that is derived from what is there already,
//! such as `order-1001-charge`, needs no saving.

mod error;
mod judge;
mod request;
mod response;
mod retries;
mod retry_after;
mod sender;

pub use error::{Error, ErrorKind};
pub use request::KeyedRequest;
pub use response::Response;
pub use retries::Retries;
pub use sender::Sender;
