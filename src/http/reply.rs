//! Replies: the responses of a framework, taken apart and made.

use bytes::Bytes;
use http_body::Body;
use idem_core::http::response::Trailers;

use super::body::Resumed;

/// What [`Reply::apart`] gives.
pub type Apart<R> = Result<(http::Response<<R as Reply>::Body>, <R as Reply>::Rest), <R as Reply>::Sent>;

/// A response of a framework; adapters implement it.
///
/// idem judges, stores and replays responses as `http::Response`; a framework that has types of its own translates
/// status, headers and the extensions that idem puts there or looks at: `Mark`, `Refused` and `Judged`.
pub trait Reply: Sized {
    /// The body, which idem reads to store it, or hands on.
    type Body: Body + Unpin;

    /// What else of the response reaches its first caller; replays and problem documents have the default.
    type Rest: Default;

    /// What its caller gets: the response, or what failed instead. Mostly `Self`.
    type Sent;

    /// Takes it apart.
    ///
    /// # Errors
    ///
    /// When there is no response in it: this reaches the caller instead, and the handler has failed.
    fn apart(self) -> Apart<Self>;

    /// Makes it, of what idem has read and judged or of what idem answers itself.
    fn whole(response: http::Response<Resumed<Self::Body>>, rest: Self::Rest) -> Self::Sent;

    /// Makes a replay, or a problem document.
    fn of_bytes(mut response: http::Response<Bytes>) -> Self::Sent {
        let trailers = response.extensions_mut().remove::<Trailers>().map(|Trailers(trailers)| trailers);
        Self::whole(response.map(|bytes| Resumed::again(bytes, trailers)), Self::Rest::default())
    }

    /// Hands it on as it is.
    fn sent(self) -> Self::Sent {
        match self.apart() {
            Ok((response, rest)) => Self::whole(response.map(Resumed::unread), rest),
            Err(failed) => failed,
        }
    }
}
