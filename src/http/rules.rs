//! What a layer or a middleware was told of its requests.

use std::fmt;
use std::sync::Arc;

use idem_core::engine::Idempotency;
use idem_core::operation::Operation;

use super::HttpCall;

type Function<F> = Option<Arc<F>>;
type OperationOf<P> = dyn Fn(&P) -> Option<Operation> + Send + Sync;
type ScopeOf<P> = dyn Fn(HttpCall, &P) -> HttpCall + Send + Sync;
type Change<W> = dyn Fn(HttpCall, &W) -> HttpCall + Send + Sync;
type Except<P> = dyn Fn(&P) -> bool + Send + Sync;

/// What is done with which request: `P` is what is known of it before its body is read, `W` the whole of it.
pub(crate) struct Rules<P, W> {
    pub(crate) engine: Idempotency,
    operation: Function<OperationOf<P>>,
    scope: Function<ScopeOf<P>>,
    change: Function<Change<W>>,
    except: Function<Except<P>>,
    max_request_bytes: Option<usize>,
}

impl<P: 'static, W: 'static> Rules<P, W> {
    pub(crate) fn new(engine: Idempotency) -> Self {
        Self { engine, operation: None, scope: None, change: None, except: None, max_request_bytes: None }
    }

    pub(crate) fn find_operation(
        &mut self,
        operation: impl Fn(&P) -> Option<Operation> + Send + Sync + 'static,
    ) {
        self.operation = Some(Arc::new(operation));
    }

    pub(crate) fn find_scope(&mut self, scope: impl Fn(HttpCall, &P) -> HttpCall + Send + Sync + 'static) {
        self.scope = Some(Arc::new(scope));
    }

    /// Also changes calls so, after what was said before.
    pub(crate) fn change(&mut self, change: impl Fn(HttpCall, &W) -> HttpCall + Send + Sync + 'static) {
        self.change = Some(match self.change.take() {
            None => Arc::new(change),
            Some(before) => Arc::new(move |call, whole| change(before(call, whole), whole)),
        });
    }

    /// Also leaves these requests alone.
    pub(crate) fn except(&mut self, except: impl Fn(&P) -> bool + Send + Sync + 'static) {
        self.except = Some(match self.except.take() {
            None => Arc::new(except),
            Some(before) => Arc::new(move |parts| before(parts) || except(parts)),
        });
    }

    pub(crate) fn limit(&mut self, max_request_bytes: usize) {
        self.max_request_bytes = Some(max_request_bytes);
    }

    /// The operation that a request asks for, unless it is left alone.
    pub(crate) fn operation(&self, parts: &P) -> Option<Operation> {
        if self.except.as_ref().is_some_and(|except| except(parts)) {
            return None;
        }
        self.operation.as_ref().and_then(|operation| operation(parts))
    }

    /// Says of a call who is asking.
    pub(crate) fn scoped(&self, call: HttpCall, parts: &P) -> HttpCall {
        match &self.scope {
            Some(scope) => scope(call, parts),
            None => call,
        }
    }

    /// Sets the options of a call.
    pub(crate) fn changed(&self, call: HttpCall, whole: &W) -> HttpCall {
        match &self.change {
            Some(change) => change(call, whole),
            None => call,
        }
    }

    /// The most bytes of a body that are read.
    pub(crate) fn max_request_bytes(&self) -> usize {
        self.max_request_bytes.unwrap_or_else(|| self.engine.config().http().request_limit())
    }
}

impl<P, W> Clone for Rules<P, W> {
    fn clone(&self) -> Self {
        Self {
            engine: self.engine.clone(),
            operation: self.operation.clone(),
            scope: self.scope.clone(),
            change: self.change.clone(),
            except: self.except.clone(),
            max_request_bytes: self.max_request_bytes,
        }
    }
}

impl<P, W> fmt::Debug for Rules<P, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("max_request_bytes", &self.max_request_bytes).finish_non_exhaustive()
    }
}

/// Was said.
#[derive(Debug, Clone, Copy)]
pub enum Said {}

/// Which operations the requests ask for was not said yet.
#[derive(Debug, Clone, Copy)]
pub enum OperationUnsaid {}

/// Whose keys the requests bring was not said yet.
#[derive(Debug, Clone, Copy)]
pub enum ScopeUnsaid {}

/// It is known which operation a request asks for.
#[diagnostic::on_unimplemented(
    message = "nobody has said which operation a request asks for",
    note = "name it with `.operation(\"payments.create\")`, or find it with `.operations(|request| ..)`; \
            `.routes(\"billing\")` takes method and matched route, on a tower layer with the feature `axum`"
)]
pub trait OperationSaid: private::Sealed {}

/// It is known who is asking.
#[diagnostic::on_unimplemented(
    message = "nobody has said whose keys the requests bring",
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
