//! Bodies: read within a limit, and handed on as if nobody had read them.

#[cfg(any(feature = "axum", feature = "tower"))]
use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt as _;
#[cfg(any(feature = "axum", feature = "tower"))]
use http_body_util::LengthLimitError;

/// What became of reading a body.
pub(crate) enum Buffered<B: Body> {
    /// It ended within the limit.
    Whole {
        /// All of it.
        bytes: Bytes,
        /// What came after it.
        trailers: Option<HeaderMap>,
    },
    /// It is longer than the limit; here it is again, from its beginning.
    TooLong(Resumed<B>),
    /// It broke off; here is what came, and then the error.
    Broken(Bytes, B::Error),
}

/// Reads a body until it ends or is longer than `limit` bytes.
///
/// A body that says beforehand that it is too long is not read at all. Bytes are counted as they arrive.
pub(crate) async fn buffer<B: Body + Unpin>(mut body: B, limit: usize) -> Buffered<B> {
    if body.size_hint().lower() > limit as u64 {
        return Buffered::TooLong(Resumed::unread(body));
    }
    let mut read = Chunks::default();
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) if data.remaining() > limit - read.len() => {
                let next = Some(Ok(Frame::data(bytes_of(data))));
                return Buffered::TooLong(Resumed { read: read.into_bytes(), next, rest: Some(body) });
            }
            Ok(Ok(data)) => read.push(bytes_of(data), &body.size_hint()),
            Ok(Err(frame)) => trailers = frame.into_trailers().ok(),
            Err(error) => return Buffered::Broken(read.into_bytes(), error),
        }
    }
    Buffered::Whole { bytes: read.into_bytes(), trailers }
}

/// Reads what is left of a body and forgets it, unless it is more than `at_most` bytes.
///
/// A client that is still writing when its connection is closed sees a reset, and not the response.
pub(crate) async fn discard<B: Body + Unpin>(mut body: B, at_most: usize) {
    let mut left = at_most as u64;
    while body.size_hint().lower() <= left {
        match body.frame().await {
            Some(Ok(frame)) => left = left.saturating_sub(frame.data_ref().map_or(0, Buf::remaining) as u64),
            Some(Err(_)) | None => return,
        }
        if left == 0 {
            return;
        }
    }
}

/// Whether a body could not be read because of a limit that somebody else put on it.
#[cfg(any(feature = "axum", feature = "tower"))]
pub(crate) fn is_over_a_limit(error: &(dyn Error + 'static)) -> bool {
    error.is::<LengthLimitError>() || error.source().is_some_and(is_over_a_limit)
}

/// Costs nothing where the data are `Bytes`, as nearly everywhere.
fn bytes_of(mut data: impl Buf) -> Bytes {
    data.copy_to_bytes(data.remaining())
}

/// Chunks of a body; most have only one, which is not copied.
///
/// More are copied together: thousands of tiny chunks must not hold on to thousands of buffers.
#[derive(Default)]
struct Chunks {
    first: Bytes,
    joined: BytesMut,
}

impl Chunks {
    fn len(&self) -> usize {
        if self.joined.is_empty() { self.first.len() } else { self.joined.len() }
    }

    fn push(&mut self, data: Bytes, rest: &SizeHint) {
        if self.len() == 0 {
            self.first = data;
            return;
        }
        if self.joined.is_empty() {
            // What a sender announces is believed up to a point only.
            let announced = rest.lower().min(1024 * 1024) as usize;
            self.joined.reserve(self.first.len() + data.len() + announced);
            self.joined.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.joined.extend_from_slice(&data);
    }

    fn into_bytes(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.freeze() }
    }
}

/// A body of which some was read: that, then one more frame, then the rest.
///
/// What idem hands on looks to its reader as if nobody had read it before.
pub struct Resumed<B: Body> {
    read: Bytes,
    next: Option<Result<Frame<Bytes>, B::Error>>,
    rest: Option<B>,
}

// Whoever polls it needs `B: Unpin`, and an error is never polled.
impl<B: Body> Unpin for Resumed<B> {}

/// What a [`Resumed`] body is made of, where that is one thing.
#[cfg(any(feature = "actix-web", feature = "axum"))]
pub(crate) enum Simple<B: Body> {
    /// Bytes that were read.
    Bytes(Bytes),
    /// A body of which nothing was read.
    Unread(B),
    /// Several.
    Mixed(Resumed<B>),
}

impl<B: Body> Resumed<B> {
    /// A body of which nothing was read.
    pub(crate) fn unread(body: B) -> Self {
        Self { read: Bytes::new(), next: None, rest: Some(body) }
    }

    /// A body that was read to its end.
    pub(crate) fn again(bytes: Bytes, trailers: Option<HeaderMap>) -> Self {
        Self { read: bytes, next: trailers.map(|trailers| Ok(Frame::trailers(trailers))), rest: None }
    }

    /// A body that broke off, as it came.
    pub(crate) fn broken(bytes: Bytes, error: B::Error) -> Self {
        Self { read: bytes, next: Some(Err(error)), rest: None }
    }

    #[cfg(any(feature = "actix-web", feature = "axum"))]
    /// What it is made of, so that a framework need not wrap what it has a type of its own for.
    pub(crate) fn simple(self) -> Simple<B> {
        match self {
            Self { read, next: None, rest: None } => Simple::Bytes(read),
            Self { read, next: None, rest: Some(body) } if read.is_empty() => Simple::Unread(body),
            mixed => Simple::Mixed(mixed),
        }
    }
}

impl<B: Body + Unpin> Body for Resumed<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if !self.read.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.read)))));
        }
        if let Some(next) = self.next.take() {
            return Poll::Ready(Some(next));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(cx).map_ok(|frame| frame.map_data(bytes_of)),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.next.is_none() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    /// Exact only if nothing follows, or what follows is: trailers and errors cannot follow a body of announced length.
    fn size_hint(&self) -> SizeHint {
        let next = match &self.next {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            _ => 0,
        };
        let known = (self.read.len() + next) as u64;
        let mut hint = SizeHint::new();
        match (&self.rest, &self.next) {
            (Some(rest), _) => {
                let rest = rest.size_hint();
                hint.set_lower(rest.lower().saturating_add(known));
                if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(known)) {
                    hint.set_upper(upper);
                }
            }
            (None, Some(_)) => hint.set_lower(known),
            (None, None) => hint.set_exact(known),
        }
        hint
    }
}

impl<B: Body> fmt::Debug for Resumed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resumed").field("read", &self.read.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::{Full, StreamBody};

    use super::*;

    type Unreadable = StreamBody<futures_util::stream::Empty<Result<Frame<Bytes>, &'static str>>>;

    fn chunked(chunks: &'static [&'static str]) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let frames =
            chunks.iter().map(|chunk| Ok::<_, Infallible>(Frame::data(Bytes::from_static(chunk.as_bytes()))));
        StreamBody::new(futures_util::stream::iter(frames))
    }

    async fn text<B: Body<Error = Infallible> + Unpin>(body: B) -> String {
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_body_at_the_limit_is_whole_and_one_byte_more_is_too_long() {
        for (chunks, limit) in [(&["abc"][..], 3), (&["a", "", "bc"], 3), (&[], 0), (&["", ""], 0)] {
            let expected = chunks.concat();
            let Buffered::Whole { bytes, trailers: None } = buffer(chunked(chunks), limit).await else {
                panic!("{chunks:?} is within {limit}")
            };
            assert_eq!(bytes, expected);
        }
        for (chunks, limit) in [(&["abcd"][..], 3), (&["abc", "d"], 3), (&["a"], 0), (&["ab", "cde", "f"], 3)]
        {
            let Buffered::TooLong(body) = buffer(chunked(chunks), limit).await else {
                panic!("{chunks:?} is over {limit}")
            };
            assert_eq!(text(body).await, chunks.concat());
        }
    }

    #[tokio::test]
    async fn a_body_that_announces_its_length_is_refused_unread() {
        let Buffered::TooLong(body) = buffer(Full::<Bytes>::from("abcd"), 3).await else {
            panic!("4 bytes are over 3")
        };
        assert_eq!(body.size_hint().exact(), Some(4));
        assert_eq!(text(body).await, "abcd");
    }

    #[tokio::test]
    async fn what_is_left_is_read_within_a_bound() {
        for (chunks, at_most, taken) in
            [(&["ab", "cd"][..], 5, 2), (&["ab", "cd", "ef"], 3, 2), (&["ab", "cd"], 2, 1), (&[], 3, 0)]
        {
            let count = Arc::new(AtomicUsize::new(0));
            let counted = count.clone();
            let frames = chunks.iter().map(move |chunk| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok::<_, Infallible>(Frame::data(Bytes::from_static(chunk.as_bytes())))
            });
            discard(StreamBody::new(futures_util::stream::iter(frames)), at_most).await;
            assert_eq!(count.load(Ordering::SeqCst), taken, "{chunks:?} within {at_most}");
        }
    }

    #[tokio::test]
    async fn trailers_and_errors_come_back_where_they_were() {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        let with_trailers = Resumed::<Full<Bytes>>::again(Bytes::from_static(b"abc"), Some(trailers.clone()));
        assert_eq!(with_trailers.size_hint().exact(), None);
        let Buffered::Whole { bytes, trailers: found } = buffer(with_trailers, 10).await else {
            panic!("whole")
        };
        assert_eq!((bytes, found), (Bytes::from_static(b"abc"), Some(trailers)));

        let body = Resumed::<Unreadable>::broken(Bytes::from_static(b"abc"), "gone");
        let Buffered::Broken(bytes, error) = buffer(body, 10).await else { panic!("broken") };
        assert_eq!((&bytes[..], error), (&b"abc"[..], "gone"));
    }
}
