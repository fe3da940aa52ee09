//! What a layer was told of its requests.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http::request::Parts;
use idem_core::engine::Idempotency;
use idem_core::operation::Operation;

use crate::http::HttpCall;

type Function<F> = Option<Arc<F>>;
pub(super) type OperationOf = dyn Fn(&Parts) -> Option<Operation> + Send + Sync;
pub(super) type ScopeOf = dyn Fn(HttpCall, &Parts) -> HttpCall + Send + Sync;
pub(super) type Change = dyn Fn(HttpCall, &Request<Bytes>) -> HttpCall + Send + Sync;
pub(super) type Except = dyn Fn(&Parts) -> bool + Send + Sync;

/// What is done with which request.
#[derive(Clone)]
pub(super) struct Rules {
    pub(super) engine: Idempotency,
    pub(super) operation: Function<OperationOf>,
    pub(super) scope: Function<ScopeOf>,
    pub(super) change: Function<Change>,
    pub(super) except: Function<Except>,
    pub(super) max_request_bytes: Option<usize>,
}

impl Rules {
    pub(super) fn new(engine: Idempotency) -> Self {
        Self { engine, operation: None, scope: None, change: None, except: None, max_request_bytes: None }
    }

    /// The operation that a request asks for, unless it is left alone.
    pub(super) fn operation(&self, parts: &Parts) -> Option<Operation> {
        if self.except.as_ref().is_some_and(|except| except(parts)) {
            return None;
        }
        self.operation.as_ref().and_then(|operation| operation(parts))
    }

    /// Says of a call who is asking.
    pub(super) fn scoped(&self, call: HttpCall, parts: &Parts) -> HttpCall {
        match &self.scope {
            Some(scope) => scope(call, parts),
            None => call,
        }
    }

    /// Sets the options of a call.
    pub(super) fn changed(&self, call: HttpCall, request: &Request<Bytes>) -> HttpCall {
        match &self.change {
            Some(change) => change(call, request),
            None => call,
        }
    }

    /// The most bytes of a body that are read.
    pub(super) fn max_request_bytes(&self) -> usize {
        self.max_request_bytes.unwrap_or_else(|| self.engine.config().http().request_limit())
    }
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("max_request_bytes", &self.max_request_bytes).finish_non_exhaustive()
    }
}

/// Was said of a layer.
#[derive(Debug, Clone, Copy)]
pub enum Said {}

/// Which operations a layer's requests ask for was not said yet.
#[derive(Debug, Clone, Copy)]
pub enum OperationUnsaid {}

/// Whose keys a layer's requests bring was not said yet.
#[derive(Debug, Clone, Copy)]
pub enum ScopeUnsaid {}

/// A layer that knows which operation a request asks for.
#[diagnostic::on_unimplemented(
    message = "this layer was not told which operation a request asks for",
    note = "name it with `.operation(\"payments.create\")`, or find it with `.operations(|request| ..)`; \
            with the feature `axum`, `.routes(\"billing\")` takes method and matched route"
)]
pub trait OperationSaid: private::Sealed {}

/// A layer that knows who is asking.
#[diagnostic::on_unimplemented(
    message = "this layer was not told whose keys its requests bring",
    note = "without a scope one caller can be answered with what another was told: say `.scope(|request| ..)` or \
            `.scope_of(|user: &User| user.id)`, or `.shared()` if that is what you want"
)]
pub trait ScopeSaid: private::Sealed {}

impl OperationSaid for Said {}
impl ScopeSaid for Said {}

mod private {
    pub trait Sealed {}
    impl Sealed for super::Said {}
}
