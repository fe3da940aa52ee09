//! The recorder: what this process adds to the history, while it happens.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::now;
use crate::history::{Fault, Payment, Request, Target};

/// What was recorded until now.
#[derive(Debug, Default)]
pub struct Recorder(Mutex<Recorded>);

/// The parts of a history that are not in the journal.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// What clients asked for.
    pub requests: Vec<Request>,
    /// What happened behind the service.
    pub payments: Vec<Payment>,
    /// What was broken; what has not healed yet heals at the end of time.
    pub faults: Vec<Fault>,
}

/// A fault that has begun.
#[derive(Debug, Clone, Copy)]
#[must_use = "faults have an end"]
pub struct Begun(usize);

impl Recorder {
    /// Adds a request whose fate is known.
    pub fn request(&self, request: Request) {
        self.lock().requests.push(request);
    }

    /// Adds an effect, unless there is one under the derived key: then gives the name of that.
    pub fn pay(&self, payment: Payment) -> String {
        let mut recorded = self.lock();
        let derived = &payment.derived;
        // The newest are asked for again the most.
        if let Some(found) = recorded.payments.iter().rev().find(|there| there.derived == *derived) {
            return found.id.clone();
        }
        let id = payment.id.clone();
        recorded.payments.push(payment);
        id
    }

    /// Adds that a fault begins.
    pub fn begin(&self, kind: &str, target: Target, forgets: bool) -> Begun {
        let mut recorded = self.lock();
        let fault = Fault { kind: kind.to_owned(), target, begun: now(), healed: u64::MAX, forgets };
        recorded.faults.push(fault);
        Begun(recorded.faults.len() - 1)
    }

    /// Adds that it has healed.
    pub fn heal(&self, fault: Begun) {
        self.lock().faults[fault.0].healed = now();
    }

    /// What was recorded until now.
    pub fn recorded(&self) -> Recorded {
        self.lock().clone()
    }

    /// Looks at what was recorded, without a copy.
    pub fn look<T>(&self, at: impl FnOnce(&Recorded) -> T) -> T {
        at(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
