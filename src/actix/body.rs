//! Bodies of actix-web: those that come, and those that go.

use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::Payload;
use actix_web::error::PayloadError;
use actix_web::http::header::CONTENT_LENGTH;
use actix_web::http::header::HeaderMap;
use bytes::Bytes;
use futures_util::Stream as _;
use http_body::{Body, Frame, SizeHint};

use crate::http::Resumed;
use crate::http::body::Simple;

/// The body of a request.
pub(super) struct Incoming {
    payload: Payload,
    /// What is still to come, as far as the request announced it.
    announced: u64,
}

impl Incoming {
    pub(super) fn new(payload: Payload, headers: &HeaderMap) -> Self {
        let announced = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        Self { payload, announced: announced.unwrap_or(0) }
    }
}

impl Body for Incoming {
    type Data = Bytes;
    type Error = PayloadError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, PayloadError>>> {
        let next = ready!(Pin::new(&mut self.payload).poll_next(cx));
        if let Some(Ok(bytes)) = &next {
            self.announced = self.announced.saturating_sub(bytes.len() as u64);
        }
        Poll::Ready(next.map(|bytes| bytes.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_lower(self.announced);
        hint
    }
}

/// The body of a handler's response.
#[derive(Debug)]
pub struct Outgoing(pub(super) BoxBody);

impl Body for Outgoing {
    type Data = Bytes;
    type Error = Box<dyn Error>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.0).poll_next(cx).map_ok(Frame::data)
    }

    fn is_end_stream(&self) -> bool {
        self.0.size().is_eof()
    }

    fn size_hint(&self) -> SizeHint {
        match self.0.size() {
            BodySize::None => SizeHint::with_exact(0),
            BodySize::Sized(length) => SizeHint::with_exact(length),
            BodySize::Stream => SizeHint::new(),
        }
    }
}

/// What is handed on, as a body of actix-web.
pub(super) fn handed_on(body: Resumed<Outgoing>) -> BoxBody {
    match body.simple() {
        Simple::Bytes(bytes) => BoxBody::new(bytes),
        Simple::Unread(Outgoing(body)) => body,
        Simple::Mixed(body) => BoxBody::new(HandedOn(body)),
    }
}

/// A body of which some was read.
struct HandedOn(Resumed<Outgoing>);

impl MessageBody for HandedOn {
    type Error = Box<dyn Error>;

    fn size(&self) -> BodySize {
        self.0.size_hint().exact().map_or(BodySize::Stream, BodySize::Sized)
    }

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        loop {
            match ready!(Pin::new(&mut self.0).poll_frame(cx)).map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => return Poll::Ready(Some(Ok(data))),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                // Trailers, which actix-web does not send; an empty chunk would end the body.
                Some(Ok(Err(_))) => {}
                None => return Poll::Ready(None),
            }
        }
    }
}
