//! Replies of actix-web.

use actix_web::HttpResponse;
use actix_web::body::BodySize;
use actix_web::body::MessageBody as _;
use actix_web::dev::Extensions;
use idem_core::policy::Mark;

use super::body::{Outgoing, handed_on};
use super::edge;
use crate::http::{Apart, Judged, Refused, Reply, Resumed};

/// What a response of actix-web has besides status, headers and body: the error it was made of, extensions, a reason, how
/// its connection goes on.
#[derive(Debug, Default)]
pub struct Head(Option<(HttpResponse<()>, BodySize)>);

impl Reply for HttpResponse {
    type Body = Outgoing;
    type Rest = Head;
    type Sent = Self;

    fn apart(self) -> Apart<Self> {
        let (mut head, body) = self.into_parts();
        let size = body.size();
        let mut response = http::Response::new(Outgoing(body));
        *response.status_mut() = edge::status(head.status());
        *response.headers_mut() = edge::headers(head.headers());
        hand_over::<Mark>(&mut head.extensions_mut(), response.extensions_mut());
        hand_over::<Judged>(&mut head.extensions_mut(), response.extensions_mut());
        Ok((response, Head(Some((head, size)))))
    }

    fn whole(response: http::Response<Resumed<Outgoing>>, Head(head): Head) -> Self {
        let (mut parts, body) = response.into_parts();
        let status = edge::status_into_theirs(parts.status);
        let (mut head, size) =
            head.unwrap_or_else(|| (HttpResponse::new(status).drop_body(), BodySize::Stream));
        *head.status_mut() = status;
        *head.headers_mut() = edge::into_theirs(&parts.headers);
        if let Some(refused) = parts.extensions.remove::<Refused>() {
            head.extensions_mut().insert(refused);
        }
        if let Some(mark) = parts.extensions.remove::<Mark>() {
            head.extensions_mut().insert(mark);
        }
        if let Some(judged) = parts.extensions.remove::<Judged>() {
            head.extensions_mut().insert(judged);
        }
        let body = handed_on(body);
        // No body and one without bytes are two things to actix-web.
        if size == BodySize::None {
            return head.set_body(actix_web::body::None::new()).map_into_boxed_body();
        }
        head.set_body(body)
    }
}

fn hand_over<T: Clone + Send + Sync + 'static>(theirs: &mut Extensions, ours: &mut http::Extensions) {
    if let Some(value) = theirs.remove::<T>() {
        ours.insert(value);
    }
}
