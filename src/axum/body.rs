//! Bodies: read within a limit, and handed on as if nobody had read them.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt as _;

/// What became of reading a body.
pub(super) enum Buffered {
    /// It ended within the limit.
    Whole {
        /// All of it.
        bytes: Bytes,
        /// What came after it.
        trailers: Option<HeaderMap>,
    },
    /// It is longer than the limit; here it is again, from its beginning.
    TooLong(Body),
    /// It broke off; here is what came, and then the error.
    Broken(Bytes, axum::Error),
}

/// Reads a body until it ends or is longer than `limit` bytes.
///
/// A body that says beforehand that it is too long is not read at all. Bytes are counted as they arrive.
pub(super) async fn buffer(mut body: Body, limit: usize) -> Buffered {
    if body.size_hint().lower() > limit as u64 {
        return Buffered::TooLong(body);
    }
    let mut read = Chunks::default();
    let mut trailers = None;
    while let Some(frame) = body.frame().await {
        match frame.map(Frame::into_data) {
            Ok(Ok(data)) if read.len() + data.len() > limit => {
                let next = Some(Ok(Frame::data(data)));
                return Buffered::TooLong(Resumed::body(read.into_bytes(), next, Some(body)));
            }
            Ok(Ok(data)) => read.push(data, &body.size_hint()),
            Ok(Err(frame)) => trailers = frame.into_trailers().ok(),
            Err(error) => return Buffered::Broken(read.into_bytes(), error),
        }
    }
    Buffered::Whole { bytes: read.into_bytes(), trailers }
}

/// Reads what is left of a body and forgets it, unless it is more than `at_most` bytes.
///
/// A client that is still writing when its connection is closed sees a reset, and not the response.
pub(super) async fn discard(mut body: Body, at_most: usize) {
    let mut left = at_most as u64;
    while body.size_hint().lower() <= left {
        match body.frame().await {
            Some(Ok(frame)) => left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len) as u64),
            Some(Err(_)) | None => return,
        }
        if left == 0 {
            return;
        }
    }
}

/// A body that was read before.
pub(super) fn again(bytes: Bytes, trailers: Option<HeaderMap>) -> Body {
    match trailers {
        None => bytes.into(),
        Some(trailers) => Resumed::body(bytes, Some(Ok(Frame::trailers(trailers))), None),
    }
}

/// A body that broke off, as it came.
pub(super) fn broken(bytes: Bytes, error: axum::Error) -> Body {
    Resumed::body(bytes, Some(Err(error)), None)
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
struct Resumed {
    read: Bytes,
    next: Option<Result<Frame<Bytes>, axum::Error>>,
    rest: Option<Body>,
}

impl Resumed {
    fn body(read: Bytes, next: Option<Result<Frame<Bytes>, axum::Error>>, rest: Option<Body>) -> Body {
        Body::new(Self { read, next, rest })
    }
}

impl http_body::Body for Resumed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.read.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(&mut self.read)))));
        }
        if let Some(next) = self.next.take() {
            return Poll::Ready(Some(next));
        }
        match &mut self.rest {
            Some(rest) => Pin::new(rest).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.read.is_empty() && self.next.is_none() && self.rest.as_ref().is_none_or(Body::is_end_stream)
    }

    /// Exact only if the rest is: trailers and errors cannot follow a body of announced length.
    fn size_hint(&self) -> SizeHint {
        let next = match &self.next {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            _ => 0,
        };
        let known = (self.read.len() + next) as u64;
        let mut hint = SizeHint::new();
        match &self.rest {
            Some(rest) => {
                let rest = rest.size_hint();
                hint.set_lower(rest.lower().saturating_add(known));
                if let Some(upper) = rest.upper().and_then(|upper| upper.checked_add(known)) {
                    hint.set_upper(upper);
                }
            }
            None => hint.set_lower(known),
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::StreamBody;

    use super::*;

    fn chunked(chunks: &'static [&'static str]) -> Body {
        let frames =
            chunks.iter().map(|chunk| Ok::<_, Infallible>(Frame::data(Bytes::from_static(chunk.as_bytes()))));
        Body::new(StreamBody::new(futures_util::stream::iter(frames)))
    }

    async fn text(body: Body) -> String {
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
        let Buffered::TooLong(body) = buffer(Body::from("abcd"), 3).await else {
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
            discard(Body::new(StreamBody::new(futures_util::stream::iter(frames))), at_most).await;
            assert_eq!(count.load(Ordering::SeqCst), taken, "{chunks:?} within {at_most}");
        }
    }

    #[tokio::test]
    async fn trailers_and_errors_come_back_where_they_were() {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-sum", "1".parse().unwrap());
        let with_trailers = again(Bytes::from_static(b"abc"), Some(trailers.clone()));
        assert_eq!(with_trailers.size_hint().exact(), None);
        let Buffered::Whole { bytes, trailers: found } = buffer(with_trailers, 10).await else {
            panic!("whole")
        };
        assert_eq!((bytes, found), (Bytes::from_static(b"abc"), Some(trailers)));

        let body = broken(Bytes::from_static(b"abc"), axum::Error::new("gone"));
        let Buffered::Broken(bytes, error) = buffer(body, 10).await else { panic!("broken") };
        assert_eq!((&bytes[..], error.to_string()), (&b"abc"[..], "gone".to_owned()));
    }
}
