//! What comes back from the inner service.

use actix_web::body::MessageBody;
use actix_web::dev::ServiceResponse;
use actix_web::error::ErrorInternalServerError;
use actix_web::{Error, HttpRequest, HttpResponse};

use super::body::Outgoing;
use super::reply::Head;
use crate::http::{Apart, Reply, Resumed};

/// A response of the inner service, or the error that it failed with instead.
pub(super) struct Passage(Result<ServiceResponse, Error>);

/// A response, and the request that it answers if the inner service has had it.
pub(super) struct Passed {
    pub(super) request: Option<HttpRequest>,
    pub(super) response: HttpResponse,
}

impl Passage {
    pub(super) fn of<B: MessageBody + 'static>(called: Result<ServiceResponse<B>, Error>) -> Self {
        Self(called.map(ServiceResponse::map_into_boxed_body))
    }

    /// Nothing to pass on: a call runs its work once at most, so its request is there when it does.
    pub(super) fn lost() -> Self {
        Self(Err(ErrorInternalServerError("the request is gone")))
    }
}

impl Reply for Passage {
    type Body = Outgoing;
    type Rest = (Head, Option<HttpRequest>);
    type Sent = Result<Passed, Error>;

    fn apart(self) -> Apart<Self> {
        let (request, response) = self.0.map_err(Err)?.into_parts();
        match response.apart() {
            Ok((response, head)) => Ok((response, (head, Some(request)))),
            Err(response) => Err(Ok(Passed { request: Some(request), response })),
        }
    }

    fn whole(response: http::Response<Resumed<Outgoing>>, (head, request): Self::Rest) -> Self::Sent {
        Ok(Passed { request, response: HttpResponse::whole(response, head) })
    }
}
