//! Transaction mode, honest and with a fault each.

use std::collections::BTreeSet;

use idem_model::transaction::{Fault, Transactions, refute, search};
use stateright::{Expectation, Model};

#[test]
fn in_transactions_every_promise_is_kept_whatever_breaks_and_restarts() {
    let found = search(4);
    println!("{} states, depth {}", found.states, found.depth);
    assert!(found.wrong.is_empty(), "{:#?}", found.wrong);
}

#[test]
fn every_fault_of_a_transaction_is_refuted() {
    for fault in Fault::ALL {
        let Some(actions) = refute(fault) else {
            panic!("{fault:?} gets away with it: \"{}\"", fault.breaks());
        };
        println!("{fault:?} breaks \"{}\" in {} steps: {actions:?}", fault.breaks(), actions.len());
    }
}

#[test]
fn every_promise_of_transactions_has_a_fault_that_breaks_it() {
    let broken: BTreeSet<_> = Fault::ALL.into_iter().map(Fault::breaks).collect();
    let model = Transactions { requests: 1, fault: None };
    for promise in model.properties().iter().filter(|property| property.expectation == Expectation::Always) {
        assert!(broken.contains(promise.name), "nothing breaks \"{}\"", promise.name);
    }
}
