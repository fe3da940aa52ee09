//! Options of the extractors that capture, as types.

use idem_core::http::request::Headers;

/// Options of an extractor that captures: [`AllHeaders`] or [`Tuned`].
pub trait CaptureOptions: Send + Sync + 'static {
    /// The most bytes of a body that are read; `None` leaves that to the engine.
    const MAX_REQUEST_BYTES: Option<usize>;
    /// Which headers are kept for the key.
    const HEADERS: Headers;
}

/// The engine's limit, and a key from any header.
#[derive(Debug)]
pub enum AllHeaders {}

impl CaptureOptions for AllHeaders {
    const MAX_REQUEST_BYTES: Option<usize> = None;
    const HEADERS: Headers = Headers::All;
}

/// A limit of its own (`usize::MAX` leaves it to the engine), and with `ALL_HEADERS` false a key from
/// `Idempotency-Key` or from no header, which is a little cheaper.
#[derive(Debug)]
pub enum Tuned<const MAX_REQUEST_BYTES: usize, const ALL_HEADERS: bool = false> {}

impl<const MAX_REQUEST_BYTES: usize, const ALL_HEADERS: bool> CaptureOptions
    for Tuned<MAX_REQUEST_BYTES, ALL_HEADERS>
{
    const MAX_REQUEST_BYTES: Option<usize> =
        if MAX_REQUEST_BYTES == usize::MAX { None } else { Some(MAX_REQUEST_BYTES) };
    const HEADERS: Headers = if ALL_HEADERS { Headers::All } else { Headers::IdempotencyKey };
}
