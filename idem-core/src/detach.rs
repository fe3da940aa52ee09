//! Surviving the caller: work whose future is dropped before its end goes on in a task of its own.

mod stand_in;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tracing::{Instrument as _, Span};

use crate::sync::{Spawner, spawn_local};
use stand_in::stand_in;

/// A future that may go on without its caller.
pub type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Carries what a task-local holds into the task that goes on without its caller.
///
/// The outer function is called at the first poll, where the caller's task-locals are still there; what it returns wraps
/// the task if the caller goes away.
#[derive(Clone)]
pub struct Carry(Arc<dyn Fn() -> Wrap + Send + Sync>);

type Wrap = Box<dyn FnOnce(Task) -> Task + Send>;

impl Carry {
    /// Makes a hook from a function that captures and returns what wraps the task.
    pub fn new<W>(capture: impl Fn() -> W + Send + Sync + 'static) -> Self
    where
        W: FnOnce(Task) -> Task + Send + 'static,
    {
        Self(Arc::new(move || Box::new(capture())))
    }
}

impl fmt::Debug for Carry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Carry")
    }
}

/// Is told that nobody waits any more for work that goes on.
pub(crate) trait Abandon {
    fn abandon(&self);
}

/// Polls a future in place, and moves it to a task if it is dropped before its end.
///
/// Costs a box, not a spawn. The runtime and the span are taken at the first poll, since `Drop` may run outside of
/// both. A future that panicked is never polled again.
pub(crate) struct Detach<F: Future, A: Abandon> {
    future: Option<Pin<Box<F>>>,
    home: Option<Home>,
    carry: Option<Carry>,
    caller: A,
    // `Drop` needs to spawn, and its bounds must not burden the type.
    spawn: fn(Pin<Box<F>>, Home),
}

struct Home {
    spawner: Option<Spawner>,
    span: Span,
    wrap: Option<Wrap>,
}

impl<F, A> Detach<F, A>
where
    F: Future + Send + 'static,
    A: Abandon,
{
    pub(crate) fn new(caller: A, carry: Option<&Carry>, future: F) -> Self {
        Self {
            future: Some(Box::pin(future)),
            home: None,
            carry: carry.cloned(),
            caller,
            spawn: |future, home| {
                let Home { spawner: Some(spawner), span, wrap } = home else {
                    return;
                };
                let task = async move {
                    future.await;
                }
                .instrument(span);
                match wrap {
                    Some(wrap) => spawner.spawn(wrap(Box::pin(task))),
                    None => spawner.spawn(task),
                }
            },
        }
    }
}

impl<F, A> Detach<F, A>
where
    F: Future + 'static,
    A: Abandon,
{
    /// As [`new`](Self::new), for a future that cannot leave its thread: there something has to run such tasks.
    pub(crate) fn local(caller: A, carry: Option<&Carry>, future: F) -> Self {
        Self {
            future: Some(Box::pin(future)),
            home: None,
            carry: carry.cloned(),
            caller,
            spawn: |future, home| {
                let Home { spawner: _, span, wrap } = home;
                let task = async move {
                    future.await;
                }
                .instrument(span);
                let runs = match wrap {
                    Some(wrap) => spawn_local(wrap(stand_in(task))),
                    None => spawn_local(task),
                };
                if !runs {
                    tracing::warn!(
                        "no `LocalSet` here: work ends with its caller, and its record is left to its lease"
                    );
                }
            },
        }
    }
}

impl<F: Future, A: Abandon + Unpin> Future for Detach<F, A> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        if self.home.is_none() {
            self.home = Some(Home {
                spawner: Spawner::current(),
                span: Span::current(),
                wrap: self.carry.take().map(|carry| carry.0()),
            });
        }
        // Taken out while it is polled: a panic then drops it here, and `Drop` finds nothing to resume.
        let mut future = self.future.take().expect("`Detach` polled after it was ready");
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(output),
            Poll::Pending => {
                self.future = Some(future);
                Poll::Pending
            }
        }
    }
}

impl<F: Future, A: Abandon> Drop for Detach<F, A> {
    fn drop(&mut self) {
        // Without a home it was never polled: it did not begin, so there is nothing to end.
        if let (Some(future), Some(home)) = (self.future.take(), self.home.take()) {
            self.caller.abandon();
            (self.spawn)(future, home);
        }
    }
}
