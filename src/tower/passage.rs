//! What comes back from the inner service.

use http::Response;
use http_body::Body;

use crate::http::{Apart, Reply, Resumed};

/// A response of the inner service, or the error that it failed with instead.
pub(super) struct Passage<R, E>(pub(super) Result<Response<R>, E>);

impl<R: Body + Unpin, E> Reply for Passage<R, E> {
    type Body = R;
    type Rest = ();
    type Sent = Result<Response<Resumed<R>>, E>;

    fn apart(self) -> Apart<Self> {
        match self.0 {
            Ok(response) => Ok((response, ())),
            Err(error) => Err(Err(error)),
        }
    }

    fn whole(response: Response<Resumed<R>>, (): ()) -> Self::Sent {
        Ok(response)
    }
}
