//! Replies: the responses of a framework, taken apart and made.

use bytes::Bytes;
use http_body::Body;

use super::body::Resumed;

/// A response of a framework; adapters implement it.
///
/// idem judges, stores and replays responses as `http::Response`; a framework that has types of its own translates
/// status, headers and the extensions that idem looks at (`Mark`).
pub trait Reply: Sized {
    /// The body, which idem reads to store it, or hands on.
    type Body: Body + Unpin;

    /// What else of the response reaches its first caller; replays and problem documents have the default.
    type Rest: Default;

    /// Takes it apart.
    ///
    /// # Errors
    ///
    /// With itself, if there is no response in it: it reaches the caller as it is, and its handler has failed.
    fn apart(self) -> Result<(http::Response<Self::Body>, Self::Rest), Self>;

    /// Makes it, of what idem has read and judged or of what idem answers itself.
    fn whole(response: http::Response<Resumed<Self::Body>>, rest: Self::Rest) -> Self;

    /// Makes a replay, or a problem document.
    fn of_bytes(response: http::Response<Bytes>) -> Self {
        Self::whole(response.map(Resumed::of_bytes), Self::Rest::default())
    }
}
